//! Our verdicts on kubelet configurations beside those of the real kubelet's validation, which were recorded from
//! Kubernetes 1.36 with its default feature gates.

use serde::Deserialize;
use serde_json::{Map, Value};
use typed::kubelet::limits;

#[derive(Deserialize)]
struct Case {
    configuration: Map<String, Value>,
    refused: bool,
}

#[test]
fn we_refuse_exactly_what_a_kubelet_refuses() {
    let mut wrong = Vec::new();
    for line in include_str!("../recorded/kubelet-limits.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let ours = limits::check(&Map::new(), &case.configuration);
        if ours.is_err() != case.refused {
            wrong.push(format!("{line} ours: {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} verdicts differ:\n{}", wrong.len(), wrong.join("\n"));
}
