//! Teaches a kubeconfig a new authority of the API, and takes nothing away from it.
//!
//! Only the text of `certificate-authority-data` is replaced: a kubeconfig is YAML or JSON, written by a kubelet, by an
//! installer or by us, and the rest of it is theirs.

use ignition::data_url;

const FIELD: &str = "certificate-authority-data";
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// The kubeconfig with every certificate of `bundle` among those it trusts; `None` where there is nothing to add, or no
/// data to add it to.
///
/// The old ones stay: the API may show either while its authority is replaced, and a bundle may be of another address.
pub fn trusting(kubeconfig: &str, bundle: &str) -> Option<String> {
    let mut written = String::with_capacity(kubeconfig.len() + bundle.len() * 2);
    let mut rest = kubeconfig;
    let mut changed = false;
    while let Some(at) = rest.find(FIELD) {
        let (before, field) = rest.split_at(at + FIELD.len());
        // A name in JSON and YAML may be quoted, and so may the value.
        let value = field.trim_start_matches(['"', '\'', ':', ' ', '\t']);
        let (between, value) = field.split_at(field.len() - value.len());
        let length = value.find(|c: char| !c.is_ascii_alphanumeric() && !"+/=".contains(c)).unwrap_or(value.len());
        let (data, after) = value.split_at(length);
        written.push_str(before);
        written.push_str(between);
        match more(data, bundle) {
            Some(more) => {
                written.push_str(&encode(&more));
                changed = true;
            }
            None => written.push_str(data),
        }
        rest = after;
    }
    written.push_str(rest);
    changed.then_some(written)
}

/// The certificates of `data` and those of `bundle` that it lacks; `None` where it lacks none or holds none.
fn more(data: &str, bundle: &str) -> Option<String> {
    let present = decode(data)?;
    let known: Vec<String> = certificates(&present).map(body).collect();
    let missing: Vec<&str> = certificates(bundle).filter(|one| !known.contains(&body(one))).collect();
    if known.is_empty() || missing.is_empty() {
        return None;
    }
    let mut all = present.trim_end().to_owned();
    all.push('\n');
    for certificate in missing {
        all.push_str(certificate);
        all.push('\n');
    }
    Some(all)
}

/// Text as base64, as kubeconfigs have it.
fn encode(text: &str) -> String {
    let url = data_url::encode(text.as_bytes());
    url.rsplit(',').next().unwrap_or_default().to_owned()
}

fn decode(data: &str) -> Option<String> {
    String::from_utf8(data_url::decode(&format!("data:;base64,{data}")).ok()?).ok()
}

/// Each certificate of a bundle, from its first line to its last.
fn certificates(bundle: &str) -> impl Iterator<Item = &str> {
    bundle.match_indices(BEGIN).filter_map(|(at, _)| {
        let rest = bundle.get(at..)?;
        let length = rest.find(END)? + END.len();
        let certificate = rest.get(..length)?;
        // Half a certificate before a whole one is none.
        (certificate.matches(BEGIN).count() == 1).then_some(certificate)
    })
}

/// What is compared: lines may be broken anywhere.
fn body(certificate: &str) -> String {
    certificate.trim_start_matches(BEGIN).trim_end_matches(END).split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(name: &str) -> String {
        format!("{BEGIN}\n{}\n{END}\n", encode(name))
    }

    fn trusted(kubeconfig: &str) -> Vec<String> {
        let data = kubeconfig.split(FIELD).nth(1).expect("the field");
        let data: String = data
            .trim_start_matches(['"', '\'', ':', ' '])
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || "+/=".contains(*c))
            .collect();
        let text = decode(&data).expect("base64");
        let name = |one: &str| decode(&body(one)).expect("base64");
        certificates(&text).map(name).collect()
    }

    fn yaml(data: &str) -> String {
        format!("clusters:\n- cluster:\n    {FIELD}: {}\n    server: https://a\n  name: local\n", encode(data))
    }

    #[test]
    fn a_new_authority_is_added_and_the_rest_of_the_file_stays() {
        let old = yaml(&certificate("old"));
        let new = trusting(&old, &(certificate("old") + &certificate("new"))).expect("a change");
        assert_eq!(trusted(&new), ["old", "new"]);
        assert!(
            new.starts_with("clusters:\n- cluster:\n") && new.ends_with("\n    server: https://a\n  name: local\n")
        );
        assert_eq!(trusting(&new, &certificate("new")), None, "nothing to add");
    }

    #[test]
    fn json_and_quotes_are_read_too() {
        for kubeconfig in [
            format!(r#"{{"clusters":[{{"cluster":{{"{FIELD}":"{}","server":"a"}}}}]}}"#, encode(&certificate("old"))),
            format!("{FIELD}: '{}'\n", encode(&certificate("old"))),
        ] {
            let new = trusting(&kubeconfig, &certificate("new")).expect("a change");
            assert_eq!(trusted(&new), ["old", "new"]);
            assert_eq!(new.matches(['"', '\'', '{', '}']).count(), kubeconfig.matches(['"', '\'', '{', '}']).count());
        }
    }

    #[test]
    fn what_cannot_be_read_is_left_alone() {
        let half = format!("{BEGIN}\nabc\n");
        for (kubeconfig, bundle) in [
            (yaml(&certificate("old")), String::new()),
            (yaml(&certificate("old")), half),
            (yaml("garbage"), certificate("new")),
            (format!("{FIELD}: %%%\n"), certificate("new")),
            (FIELD.to_owned(), certificate("new")),
            ("certificate-authority: /etc/ca.crt\n".to_owned(), certificate("new")),
            (String::new(), certificate("new")),
        ] {
            assert_eq!(trusting(&kubeconfig, &bundle), None, "{kubeconfig:?}");
        }
    }
}
