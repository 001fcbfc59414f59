//! Every account of an installation has the rights of the committed list, and no others.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use testkit::{ControlPlane, Kind, control_plane, needs};

use crate::stage::NAMESPACE;

const INSTALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../manifests/install");
/// A namespace that is nobody's, where an account has only what it has everywhere.
const ELSEWHERE: &str = "elsewhere";

/// What an account may do in a namespace, one right a line: resources, addresses, names, verbs.
fn rights(control_plane: &ControlPlane, namespace: &str, user: &str) -> BTreeSet<String> {
    let listed = control_plane.kubectl(&["auth", "can-i", "--list", "--as", user, "-n", namespace]);
    listed.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The rights of the accounts of one namespace, without those that everybody has.
fn list(control_plane: &ControlPlane, home: &str, accounts: &[String], text: &mut String) {
    let everybodys = rights(control_plane, ELSEWHERE, &format!("system:serviceaccount:{home}:nobody"));
    for account in accounts {
        let user = format!("system:serviceaccount:{home}:{account}");
        let everywhere = &rights(control_plane, ELSEWHERE, &user) - &everybodys;
        let mut section = |place: &str, rights: &BTreeSet<String>| {
            rights.iter().for_each(|right| writeln!(text, "{account} in {place}: {right}").unwrap());
        };
        section("every namespace", &everywhere);
        for namespace in [NAMESPACE, api::names::MACHINE_API_NAMESPACE, "kube-system", "default"] {
            let there = &rights(control_plane, namespace, &user) - &everybodys;
            section(namespace, &(&there - &everywhere));
        }
    }
}

#[tokio::test]
async fn each_account_has_the_rights_of_the_committed_list_and_no_others() {
    if !needs::kubectl() {
        return;
    }
    let control_plane = control_plane(Kind::Embedded).await.expect("the embedded API needs nothing");
    for file in ["namespaces.yaml", "access.yaml"] {
        control_plane.apply(&std::fs::read_to_string(format!("{INSTALL}/{file}")).unwrap());
    }
    let client = cluster::connect(Some(&control_plane.kubeconfig())).await.unwrap();
    let mut text = String::new();
    for home in [NAMESPACE, api::names::MACHINE_API_NAMESPACE] {
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), home);
        let accounts = accounts.list(&ListParams::default()).await.unwrap();
        let mut names: Vec<String> = accounts.iter().map(ResourceExt::name_any).collect();
        names.retain(|name| name != "default");
        names.sort();
        list(&control_plane, home, &names, &mut text);
    }
    // UPDATE_EXPECT=1 writes the list anew; whether an account shall have more than before is for a person to judge.
    expect_test::expect_file!["rights.txt"].assert_eq(&text);
}
