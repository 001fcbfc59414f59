//! Masks what looks secret in a text of any syntax: YAML, JSON, TOML, environment files, units, shell.
//!
//! Each finder returns the places of what it found. The text around stays, so that a reader sees what is set and not to what.

use std::borrow::Cow;
use std::ops::Range;

use ignition::Resource;

use super::assignment;

/// What stands in the place of a value.
const MASK: &str = "<masked>";

/// Data URLs within data URLs are looked into so deep; what is deeper is masked unseen.
const DEPTH: usize = 3;

/// A hash of a password is at least this long after its method's name.
const HASH: usize = 12;

/// How hashes of passwords begin, in shadow files, htpasswd files and LDAP.
const METHODS: [&str; 18] = [
    "$1$", "$2a$", "$2b$", "$2x$", "$2y$", "$5$", "$6$", "$7$", "$y$", "$gy$", "$apr1$", "$sha1$", "$md5", "$argon2",
    "$pbkdf2", "{SSHA", "{SHA", "{CRYPT}",
];

/// The text with everything masked that looks secret; borrowed if there is nothing.
#[must_use]
pub fn redact(text: &str) -> Cow<'_, str> {
    redact_to(text, DEPTH)
}

fn redact_to(text: &str, depth: usize) -> Cow<'_, str> {
    let mut places = assignment::secrets(text);
    private_keys(text, &mut places);
    url_passwords(text, &mut places);
    hashes(text, &mut places);
    encoded(text, depth, &mut places);
    places.retain(|place| !place.is_empty() && &text[place.clone()] != MASK);
    if places.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(masked(text, places)) }
}

/// Replaces places, which may lie within one another.
fn masked(text: &str, mut places: Vec<Range<usize>>) -> String {
    places.sort_by_key(|place| place.start);
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for place in places {
        if place.start >= at {
            out.push_str(&text[at..place.start]);
            out.push_str(MASK);
        }
        at = at.max(place.end);
    }
    out.push_str(&text[at..]);
    out
}

/// What stands between the first and the last line of a private key.
fn private_keys(text: &str, places: &mut Vec<Range<usize>>) {
    const BEGIN: &str = "-----BEGIN ";
    for (at, _) in text.match_indices(BEGIN) {
        let title = &text[at + BEGIN.len()..];
        let Some(end) = title.find("-----").filter(|end| title[..*end].contains("PRIVATE KEY")) else { continue };
        let from = at + BEGIN.len() + end + "-----".len();
        let to = text[from..].find("-----END").map_or(text.len(), |length| from + length);
        places.push(from..to);
    }
}

/// Passwords in `scheme://user:password@host`, and whatever stands alone before the `@` of a web address.
fn url_passwords(text: &str, places: &mut Vec<Range<usize>>) {
    for slashes in ["://", ":\\/\\/"] {
        for (at, _) in text.match_indices(slashes) {
            let from = at + slashes.len();
            let rest = &text[from..];
            let is_outside = |letter: char| letter.is_whitespace() || "\"'`<>".contains(letter);
            let word = &rest[..rest.find(is_outside).unwrap_or(rest.len())];
            let authority = &word[..word.find(['/', '?', '#', '\\']).unwrap_or(word.len())];
            let user = match authority.rfind('@') {
                Some(end) => Some(&authority[..end]),
                // A password with a slash in it: what follows the colon is no port.
                None => has_odd_port(authority).then(|| word.rfind('@').map(|end| &word[..end])).flatten(),
            };
            let Some(user) = user else { continue };
            match user.find(':') {
                Some(colon) => places.push(from + colon + 1..from + user.len()),
                None if text[..at].ends_with("http") || text[..at].ends_with("https") => {
                    places.push(from..from + user.len());
                }
                None => {}
            }
        }
    }
}

fn has_odd_port(authority: &str) -> bool {
    let port = authority.split_once(':').map(|(_, port)| port);
    port.is_some_and(|port| !authority.starts_with('[') && port.chars().any(|letter| !letter.is_ascii_digit()))
}

fn hashes(text: &str, places: &mut Vec<Range<usize>>) {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "./$=,+-_{}".contains(letter);
    for (at, _) in text.match_indices(['$', '{']) {
        let rest = &text[at..];
        let Some(method) = METHODS.iter().find(|method| rest.starts_with(**method)) else { continue };
        let length = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        if length >= method.len() + HASH {
            places.push(at..at + length);
        }
    }
}

/// Data URLs and base64 of PEM, judged by what they carry.
fn encoded(text: &str, depth: usize, places: &mut Vec<Range<usize>>) {
    for (at, _) in text.match_indices("data:") {
        let rest = &text[at..];
        let url = &rest
            [..rest.find(|letter: char| letter.is_whitespace() || "\"'`<>".contains(letter)).unwrap_or(rest.len())];
        let Some(comma) = url.find(',') else { continue };
        if carries_secret(url, depth) {
            places.push(at + comma + 1..at + url.len());
        }
    }
    // `-----BEGIN` in base64. A run is judged once, or bundles of certificates would take the square of their length.
    let mut judged = 0;
    for (at, _) in text.match_indices("LS0tLS1") {
        if at < judged {
            continue;
        }
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "+/".contains(letter);
        let rest = &text[at..];
        let length = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        judged = text.len() - rest[length..].trim_start_matches('=').len();
        // Without an odd end and its padding, so that what was cut off or joined is read too.
        if carries_secret(&format!("data:;base64,{}", &rest[..length - length % 4]), depth) {
            places.push(at..judged);
        }
    }
}

fn carries_secret(url: &str, depth: usize) -> bool {
    let decode = |compression: Option<&str>| {
        let compression = compression.map(str::to_owned);
        ignition::decode(&Resource { source: Some(url.to_owned()), compression, ..Resource::default() }).ok()
    };
    let Some(plain) = decode(None) else { return false };
    let bytes = match plain.starts_with(&[0x1f, 0x8b]).then(|| decode(Some("gzip"))) {
        None => plain,
        Some(Some(inner)) => inner,
        // Compressed, and not to be read here.
        Some(None) => return true,
    };
    match (std::str::from_utf8(&bytes), depth) {
        (Err(_), _) => false,
        (Ok(_), 0) => true,
        (Ok(inner), _) => super::is_secret_whole(inner) || matches!(redact_to(inner, depth - 1), Cow::Owned(_)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_look_secret_are_masked_in_every_syntax() {
        for (text, shown) in [
            // YAML
            ("a: 1\npassword: abc def\nb: 2\n", "a: 1\npassword: <masked>\nb: 2\n"),
            ("- name: x\n  token: \"a\\\"b\"\n  c: d\n", "- name: x\n  token: \"<masked>\"\n  c: d\n"),
            ("key:\n  secret: |\n    line one\n    line two\nnext: 1\n", "key:\n  secret: <masked>\nnext: 1\n"),
            ("tokens:\n- one\n- two\nnext: 1\n", "tokens:<masked>\nnext: 1\n"),
            ("password:\n  value: abc\nnext: 1\n", "password:<masked>\nnext: 1\n"),
            ("password: abc\n  def\nnext: 1\n", "password: <masked>\nnext: 1\n"),
            // JSON
            (r#"{"a": 1, "apiKey": "abc", "b": 2}"#, r#"{"a": 1, "apiKey": "<masked>", "b": 2}"#),
            (r#"{"token": 12, "b": 2}"#, r#"{"token": <masked>, "b": 2}"#),
            (r#"{"secrets": ["a", "b]"], "b": 2}"#, r#"{"secrets": [<masked>], "b": 2}"#),
            (r#"{"auth": "eA==", "b": 2}"#, r#"{"auth": "<masked>", "b": 2}"#),
            (r#""{\"password\": \"abc\", \"b\": 2}""#, r#""{\"password\": \"<masked>\", \"b\": 2}""#),
            // TOML
            ("secret_key = 'a b'\nb = 1\n", "secret_key = '<masked>'\nb = 1\n"),
            ("password = \"\"\"a\nb\"\"\"\nb = 1\n", "password = \"\"\"<masked>\"\"\"\nb = 1\n"),
            // Environment files and units
            ("export DB_PASSWORD=a b\nX=1\n", "export DB_PASSWORD=<masked>\nX=1\n"),
            ("Environment=A=b API_TOKEN=abc C=d\n", "Environment=A=b API_TOKEN=<masked> C=d\n"),
            ("Environment=\"API_TOKEN=a b\" \"C=d\"\n", "Environment=\"API_TOKEN=<masked>\" \"C=d\"\n"),
            ("DB_PASS=abc\nX=1\n", "DB_PASS=<masked>\nX=1\n"),
            ("MYSQL_PWD=abc\nX=1\n", "MYSQL_PWD=<masked>\nX=1\n"),
            ("TOKEN=${TOKEN:-abc}\nX=1\n", "TOKEN=<masked>\nX=1\n"),
            ("PASSWORD=abc\\\n  def\nX=1\n", "PASSWORD=<masked>\nX=1\n"),
            ("ExecStart=/bin/x --token abc --port 1\n", "ExecStart=/bin/x --token <masked> --port 1\n"),
            ("ExecStart=/bin/x --password=abc --port 1\n", "ExecStart=/bin/x --password=<masked> --port 1\n"),
            ("  '--token' \\\n\t'K10:x' \\\n\t'--port' \\\n", "  '--token' \\\n\t'<masked>' \\\n\t'--port' \\\n"),
            ("ExecStart=/bin/x '--token' 'a b' --port\n", "ExecStart=/bin/x '--token' '<masked>' --port\n"),
            ("ExecStart=/bin/x --token \\\n  abc --port 1\n", "ExecStart=/bin/x --token \\\n  <masked> --port 1\n"),
            ("args:\n- --token\n- abc\n- x\n", "args:\n- --token\n- <masked>\n- x\n"),
            ("args: [\"--token\", \"abc\", \"x\"]\n", "args: [\"--token\", \"<masked>\", \"x\"]\n"),
            ("PrivateKey = abc=\nListenPort = 1\n", "PrivateKey = <masked>\nListenPort = 1\n"),
            (
                "ExecStart=curl -H \"Authorization: Bearer abc\" x\n",
                "ExecStart=curl -H \"Authorization: <masked>\" x\n",
            ),
            ("machine h login me password abc\n", "machine h login me password <masked>\n"),
            ("requirepass abc\n", "requirepass <masked>\n"),
            // Addresses
            ("Environment=HTTPS_PROXY=http://user:pw@h:1/\n", "Environment=HTTPS_PROXY=http://user:<masked>@h:1/\n"),
            ("proxy=\"http://user:p/w@h:1\"", "proxy=\"http://user:<masked>@h:1\""),
            (r#"{"u": "http:\/\/user:pw@h"}"#, r#"{"u": "http:\/\/user:<masked>@h"}"#),
            ("https://ghp_abc@github.com/a/b", "https://<masked>@github.com/a/b"),
            // Hashes
            ("core:$6$salt$abcdefghijkl:1:2\n", "core:<masked>:1:2\n"),
            ("me:$apr1$salt$abcdefghijkl\n", "me:<masked>\n"),
            ("me:{SSHA}abcdefghijklmnop==\n", "me:<masked>\n"),
        ] {
            assert_eq!(redact(text), shown, "{text}");
            assert_eq!(redact(&redact(text)), shown, "a second time: {text}");
        }
    }

    #[test]
    fn private_keys_are_masked_anywhere() {
        let pem = "x: 1\nkey: |\n  -----BEGIN RSA PRIVATE KEY-----\n  abc\n  -----END RSA PRIVATE KEY-----\ny: 2\n";
        assert!(!redact(pem).contains("abc") && redact(pem).contains("y: 2"), "{}", redact(pem));
        let json = r#"{"a": "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----", "b": 2}"#;
        assert!(!redact(json).contains("abc") && redact(json).contains(r#""b": 2"#));
        assert!(!redact("-----BEGIN PRIVATE KEY-----\nabc").contains("abc"), "also without an end");
        let certificate = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n";
        assert_eq!(redact(certificate), certificate);
    }

    #[test]
    fn what_is_encoded_is_judged_decoded() {
        // password: abc
        let base64 = "cGFzc3dvcmQ6IGFiYwo=";
        let shown = redact(&format!(r#"{{"source": "data:text/plain;base64,{base64}"}}"#)).into_owned();
        assert_eq!(shown, r#"{"source": "data:text/plain;base64,<masked>"}"#);
        let plain = r#"{"source": "data:,hello"}"#;
        assert_eq!(redact(plain), plain);
        assert_eq!(redact("a data:,password%3A%20abc b"), "a data:,<masked> b");
        // The same, compressed by gzip.
        let gzip = "H4sIAAAAAAACAytILC4uzy9KsVJITErmAgC91YrYDgAAAA==";
        assert_eq!(redact(&format!("data:;base64,{gzip}")), "data:;base64,<masked>");
        // -----BEGIN PRIVATE KEY-----
        let key = "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCmFiYwo=";
        assert_eq!(redact(&format!("x={key}")), "x=<masked>");
        // -----BEGIN CERTIFICATE-----, and the key right behind it.
        let certificate = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCmFiYwo=";
        assert_eq!(redact(&format!("x={certificate}{key}")), format!("x={certificate}<masked>"));
    }

    #[test]
    fn a_run_of_base64_is_judged_once_however_often_it_begins_anew() {
        // Judged at each of its 60,000 beginnings, this takes many minutes.
        let text = "LS0tLS1B".repeat(60_000);
        assert_eq!(redact(&text), text);
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "authentication:\n  x509:\n    clientCAFile: /etc/ca.crt\nauthorization:\n  mode: Webhook\n",
            "tlsPrivateKeyFile: /var/lib/kubelet/pki/key.pem\n",
            "ExecStart=/bin/kubelet --authentication-token-webhook=true --token-ttl=2m\n",
            "ExecStart=/bin/x --rotate-token --port 1\n",
            "args:\n- --rotate-token\n- --port\n",
            "ExecStart=/bin/x --rotate-token\nRestart=always\n",
            "password    sufficient    pam_unix.so sha512 shadow\n",
            "passwd:     files sss\nshadow: files\n",
            "image: quay.io/a/secret:latest\n",
            "docker://host:5000/a@sha256:0123\n",
            "ssh://git@host/a\n",
            "echo $1$2\n",
            "automountServiceAccountToken: false\n",
            "PasswordAuthentication no\n",
            "TOKEN=${TOKEN}\n",
            "bypass=1\n",
            "hello, world\n",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn odd_texts_are_taken_as_they_are() {
        for text in [
            "",
            "token",
            "token=",
            "token: ",
            "\"token\":",
            "token=\"",
            "token=[",
            "ü token=ü\u{1F600}",
            "://",
            "password:\n",
            "$6$",
            "data:",
            "data:,",
        ] {
            let _ = redact(text);
        }
    }
}
