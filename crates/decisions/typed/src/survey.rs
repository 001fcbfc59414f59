//! What the hosts of a pool have in common: which places are asked about, and what becomes of the answers.
//!
//! A file that is the same on every node can become part of a fragment. What differs between nodes is listed with the nodes
//! on either side and never adopted: a fragment is the same for all.

use std::collections::{BTreeMap, BTreeSet};

use api::labels;
use api::machineconfiguration::{GROUP, VERSION};
use api::machinist::{Found, SurveyedFile};
use serde_json::{Value, json};

use crate::templates::{Profile, Templates};

/// Files of hosts that kubeadm made, as its packages and its documentation leave them.
const KUBEADM: [&str; 10] = [
    "/etc/containerd/config.toml",
    "/etc/crictl.yaml",
    "/etc/default/kubelet",
    "/etc/modules-load.d/k8s.conf",
    "/etc/sysctl.d/k8s.conf",
    "/etc/sysconfig/kubelet",
    "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
    "/usr/lib/systemd/system/kubelet.service",
    "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf",
    "/var/lib/kubelet/config.yaml",
];

/// Files of hosts of k3s.
const K3S: [&str; 5] = [
    "/etc/rancher/k3s/config.yaml",
    "/etc/rancher/k3s/registries.yaml",
    "/etc/systemd/system/k3s-agent.service",
    "/etc/systemd/system/k3s.service",
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
];

/// Files that a package owns or that a tool writes anew by itself: they are told of, and a MachineConfig would fight for them.
const OWNED: [&str; 4] = [
    "/usr/lib/systemd/system/kubelet.service",
    "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf",
    "/var/lib/kubelet/config.yaml",
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
];

/// The places that say how a host of this profile is set up: those that templates would write, and the distribution's own.
pub fn paths(profile: Profile, templates: &Templates) -> BTreeSet<String> {
    let own: &[&str] = match profile {
        Profile::Kubeadm => &KUBEADM,
        Profile::K3s => &K3S,
        Profile::OpenShift | Profile::None => &[],
    };
    templates.paths().into_iter().chain(own.iter().map(|path| (*path).to_owned())).collect()
}

/// What the answers of a pool's nodes say together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Files that every node has, with one content and one mode.
    pub same: Vec<SurveyedFile>,
    /// Places that are not adopted, because nodes differ or for another reason, with a sentence.
    pub differs: BTreeMap<String, String>,
    /// Places of which nothing is told, with the reason.
    pub withheld: BTreeMap<String, String>,
}

/// Compares the answers of nodes. A place that no node has is not worth a word.
pub fn compare(answers: &BTreeMap<String, Vec<SurveyedFile>>) -> Comparison {
    let mut by_path: BTreeMap<&str, BTreeMap<&str, &SurveyedFile>> = BTreeMap::new();
    for (node, files) in answers {
        for file in files {
            by_path.entry(&file.path).or_default().insert(node, file);
        }
    }
    let mut comparison = Comparison::default();
    for (path, told) in by_path {
        let withheld = told.values().find(|file| matches!(file.found, Found::Secret | Found::Other));
        let first = told.values().next().copied().cloned().unwrap_or_default();
        let is_same = |file: &SurveyedFile| kind(file) == kind(&first);
        if told.len() != answers.len() {
            comparison.differs.insert(path.to_owned(), "not every node has answered".to_owned());
        } else if let Some(file) = withheld {
            let why = file.reason.clone().unwrap_or_else(|| "it may hold secrets".to_owned());
            comparison.withheld.insert(path.to_owned(), why);
        } else if !told.values().all(|file| is_same(file)) {
            comparison.differs.insert(path.to_owned(), sides(&told));
        } else if first.found == Found::File {
            let why = if OWNED.contains(&path) {
                "a package, kubeadm or k3s writes it"
            } else if told.len() < 2 {
                "only one node answered, so nobody knows what is its own"
            } else {
                comparison.same.push(first);
                continue;
            };
            comparison.differs.insert(path.to_owned(), why.to_owned());
        }
    }
    comparison
}

/// What has to be equal.
fn kind(file: &SurveyedFile) -> (Found, Option<u32>, Option<&str>) {
    (file.found, file.mode, file.hash.as_deref())
}

/// Which nodes have what, the largest group first.
fn sides(told: &BTreeMap<&str, &SurveyedFile>) -> String {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (node, file) in told {
        let hash = file.hash.as_deref().unwrap_or_default().trim_start_matches("sha256-");
        let short = hash.get(..8).unwrap_or(hash);
        let what = match (file.found, file.mode) {
            (Found::Nothing, _) => "nothing".to_owned(),
            (_, Some(mode)) => format!("{short} with mode {mode:04o}"),
            (_, None) => short.to_owned(),
        };
        groups.entry(what).or_default().push(node);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    let group = |(what, nodes): (String, Vec<&str>)| format!("{what} on {}", nodes.join(", "));
    groups.into_iter().map(group).collect::<Vec<_>>().join("; ")
}

/// The name of the fragment that holds what the hosts of a pool have in common.
pub fn fragment_name(pool: &str) -> String {
    // Before what users write by hand, so that their fragments win.
    format!("10-{pool}-adopted")
}

/// The fragment, from the files whose texts are known.
pub fn fragment(pool: &str, files: &[SurveyedFile]) -> Value {
    let entry = |file: &SurveyedFile| {
        // A node says both hash and text, and only the hash was compared with what the others say.
        let text =
            file.contents.as_ref().filter(|text| file.hash.as_ref() == Some(&ignition::sha256(text.as_bytes())))?;
        Some(json!({
            "path": file.path, "mode": file.mode.unwrap_or(0o644) & 0o777, "overwrite": true,
            "contents": {"source": ignition::data_url::encode(text.as_bytes())},
        }))
    };
    let files: Vec<Value> = files.iter().filter_map(entry).collect();
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "MachineConfig",
        "metadata": {"name": fragment_name(pool), "labels": {labels::ROLE: pool}},
        "spec": {"config": {"ignition": {"version": "3.4.0"}, "storage": {"files": files}}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, hash: &str) -> SurveyedFile {
        let hash = Some(format!("sha256-{hash}"));
        SurveyedFile { path: path.into(), found: Found::File, mode: Some(0o644), hash, ..SurveyedFile::default() }
    }

    fn other(path: &str, found: Found) -> SurveyedFile {
        SurveyedFile { path: path.into(), found, ..SurveyedFile::default() }
    }

    #[test]
    fn only_what_every_node_has_in_the_same_way_is_adopted() {
        let narrow = SurveyedFile { mode: Some(0o600), ..file("/etc/mode", "1") };
        let answers = BTreeMap::from([
            (
                "a".to_owned(),
                vec![
                    file("/etc/same", "1"),
                    file("/etc/text", "1111111122"),
                    file("/etc/some", "1"),
                    file("/etc/mode", "1"),
                    other("/etc/none", Found::Nothing),
                    file("/etc/key", "1"),
                    file("/etc/late", "1"),
                ],
            ),
            (
                "b".to_owned(),
                vec![
                    file("/etc/same", "1"),
                    file("/etc/text", "2222222233"),
                    other("/etc/some", Found::Nothing),
                    narrow,
                    other("/etc/none", Found::Nothing),
                    other("/etc/key", Found::Secret),
                ],
            ),
        ]);
        let Comparison { same, differs, withheld } = compare(&answers);
        assert_eq!(same, [file("/etc/same", "1")]);
        assert_eq!(differs["/etc/text"], "11111111 with mode 0644 on a; 22222222 with mode 0644 on b");
        assert_eq!(differs["/etc/some"], "1 with mode 0644 on a; nothing on b");
        assert_eq!(differs["/etc/late"], "not every node has answered");
        assert!(differs.contains_key("/etc/mode") && differs.len() == 4, "{differs:?}");
        assert_eq!(withheld.keys().collect::<Vec<_>>(), ["/etc/key"]);
    }

    #[test]
    fn what_a_package_or_a_tool_writes_is_told_and_not_adopted() {
        for path in OWNED {
            let answer = |node: &str| (node.to_owned(), vec![file(path, "1"), file("/etc/same", "1")]);
            let Comparison { same, differs, .. } = compare(&BTreeMap::from([answer("a"), answer("b")]));
            assert_eq!(same, [file("/etc/same", "1")]);
            assert_eq!(differs[path], "a package, kubeadm or k3s writes it");
        }
    }

    #[test]
    fn what_one_node_has_is_not_what_a_pool_has_in_common() {
        let told = vec![file("/etc/default/kubelet", "1"), other("/etc/none", Found::Nothing)];
        let Comparison { same, differs, .. } = compare(&BTreeMap::from([("a".to_owned(), told)]));
        assert_eq!((same.len(), differs.len()), (0, 1));
        assert!(differs["/etc/default/kubelet"].starts_with("only one node answered"), "{differs:?}");
    }

    #[test]
    fn a_fragment_holds_the_texts_with_their_modes() {
        let hash = Some(ignition::sha256(b"a b\n"));
        let known = SurveyedFile { contents: Some("a b\n".into()), mode: Some(0o4755), hash, ..file("/etc/a", "1") };
        let lie = SurveyedFile { contents: Some("another text\n".into()), path: "/etc/lie".into(), ..known.clone() };
        let made = fragment("infra", &[known, lie, file("/etc/unknown", "2")]);
        assert_eq!(made["metadata"]["name"], "10-infra-adopted");
        let files = made["spec"]["config"]["storage"]["files"].as_array().cloned().unwrap_or_default();
        assert_eq!(files.len(), 1, "{made}");
        assert_eq!((&files[0]["path"], &files[0]["mode"]), (&json!("/etc/a"), &json!(0o755)));
    }

    #[test]
    fn every_profile_asks_for_no_more_than_one_request_takes() {
        let templates = Templates::builtin(Profile::OpenShift);
        for profile in [Profile::OpenShift, Profile::Kubeadm, Profile::K3s, Profile::None] {
            let paths = paths(profile, &templates);
            assert!(paths.len() <= api::survey::MOST_PATHS, "{profile}: {}", paths.len());
            assert!(paths.contains("/etc/sysctl.d/inotify.conf") && paths.iter().all(|path| path.starts_with('/')));
        }
    }
}
