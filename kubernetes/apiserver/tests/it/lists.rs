//! Lists on the wire: pages, versions, selectors, shapes.

use serde_json::{Value, json};

use crate::wire::Wire;

const SECRETS: &str = "/api/v1/namespaces/kube-public/secrets";

async fn with_secrets(count: usize) -> Wire {
    let wire = Wire::start().await;
    for number in 0..count {
        wire.post(SECRETS, &json!({"metadata": {"name": format!("m{number}"), "labels": {"n": number.to_string()}}}))
            .await;
    }
    wire
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn pages_are_consistent_whatever_changes_between_them() {
    let wire = with_secrets(5).await;
    let first = wire.get(&format!("{SECRETS}?limit=2")).await.body;
    assert_eq!(names(&first), ["m0", "m1"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    wire.delete(&format!("{SECRETS}/m3"), &json!({})).await;
    wire.post(SECRETS, &json!({"metadata": {"name": "m25"}})).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = wire.get(&format!("{SECRETS}?limit=2&continue={token}")).await.body;
    assert_eq!(names(&second), ["m2", "m3"]);
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = wire.get(&format!("{SECRETS}?limit=2&continue={token}")).await.body;
    assert_eq!(names(&third), ["m4"]);
    assert!(third["metadata"]["continue"].is_null());
}

#[tokio::test]
async fn an_exact_version_shows_the_past() {
    let wire = with_secrets(1).await;
    let version = wire.get(SECRETS).await.body["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    wire.delete(&format!("{SECRETS}/m0"), &json!({})).await;
    let past = wire.get(&format!("{SECRETS}?resourceVersion={version}&resourceVersionMatch=Exact")).await.body;
    assert_eq!(names(&past), ["m0"]);
    assert_eq!(names(&wire.get(&format!("{SECRETS}?resourceVersion=0")).await.body), [""; 0]);
    let refused = wire.get(&format!("{SECRETS}?resourceVersionMatch=Exact")).await;
    assert_eq!(refused.code, 422);
}

#[tokio::test]
async fn labels_and_fields_select() {
    let wire = with_secrets(4).await;
    for (selector, expected) in [
        ("labelSelector=n%20in%20(1,3)", vec!["m1", "m3"]),
        ("labelSelector=n!%3D0,n", vec!["m1", "m2", "m3"]),
        ("labelSelector=!n", vec![]),
        ("fieldSelector=metadata.name%3Dm2", vec!["m2"]),
        ("fieldSelector=metadata.name!%3Dm2,metadata.namespace%3Dkube-public", vec!["m0", "m1", "m3"]),
    ] {
        assert_eq!(names(&wire.get(&format!("{SECRETS}?{selector}")).await.body), expected, "{selector}");
    }
    for bad in ["labelSelector=a%20in", "labelSelector=%3D", "fieldSelector=spec.x%3D1", "fieldSelector=x"] {
        assert_eq!(wire.get(&format!("{SECRETS}?{bad}")).await.code, 400, "{bad}");
    }
}

#[tokio::test]
async fn lists_come_as_tables_metadata_and_yaml() {
    let wire = with_secrets(2).await;
    let get = async |accept: &str| wire.send(wire.request("GET", SECRETS, "", "").header("accept", accept)).await;
    let table = get("application/json;as=Table;g=meta.k8s.io;v=v1,application/json").await.body;
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["rows"].as_array().unwrap().len(), 2);
    assert_eq!(table["columnDefinitions"][0]["name"], "Name");
    let metadata = get("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").await.body;
    assert_eq!(metadata["kind"], "PartialObjectMetadataList");
    assert!(metadata["items"][0]["data"].is_null());
    assert!(get("application/yaml").await.text.contains("kind: SecretList"));
    assert_eq!(get("application/vnd.kubernetes.protobuf").await.code, 406);
}

#[tokio::test]
async fn a_long_list_is_the_same_however_it_is_sent() {
    let wire = Wire::start().await;
    let maps = "/api/v1/namespaces/kube-public/configmaps";
    // Small ones are joined, large ones sent as they are, next to each other and at the end.
    let sizes = [3000, 3000, 40_000, 40_000, 3000, 70_000, 3000, 3000, 20_000];
    for (number, size) in sizes.into_iter().enumerate() {
        let fill = char::from(b'a' + u8::try_from(number).unwrap()).to_string().repeat(size);
        wire.post(maps, &json!({"metadata": {"name": format!("m{number}")}, "data": {"x": fill}})).await;
    }
    let plain = wire.get(maps).await;
    let items = plain.body["items"].as_array().unwrap();
    let found: Vec<usize> = items.iter().filter_map(|item| Some(item["data"]["x"].as_str()?.len())).collect();
    assert_eq!(found, sizes);
    assert_eq!(plain.headers["content-length"], plain.text.len().to_string());
    let packed = wire.request("GET", maps, "", "").header("accept-encoding", "gzip").send().await.unwrap();
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    let packed = packed.bytes().await.unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&packed[..]), &mut text).unwrap();
    assert_eq!(text, plain.text);
    let pretty = wire.get(&format!("{maps}?pretty=1")).await;
    assert_eq!(pretty.body, plain.body);
    let head = wire.send(wire.request("HEAD", maps, "", "")).await;
    assert_eq!(head.headers["content-length"], plain.headers["content-length"]);
}
