//! `machinist render`.

use expect_test::expect;

use crate::{Folder, file, fragment};

fn names(text: &str) -> Vec<&str> {
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("name: rendered-"));
    names.filter_map(|name| name.rsplit_once('-').map(|(pool, _)| pool)).collect()
}

#[test]
fn a_folder_becomes_one_config_for_each_pool() {
    let folder = Folder::new(&[
        ("m/b.yaml", &file("50-w", "worker", "/etc/w", "x")),
        ("m/a.yml", &file("50-m", "master", "/etc/m", "x")),
        ("m/notes.txt", "not a manifest"),
        ("m/deeper/c.yaml", &file("50-i", "infra", "/etc/i", "x")),
    ]);
    let run = folder.run(&["render", "-f", "m"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(names(&run.stdout), ["master", "worker"]);
    let run = folder.run(&["render", "-R", "-f", "m"]);
    assert_eq!(names(&run.stdout), ["infra", "master", "worker"]);
    expect![[r#"
        warning: no MachineConfigPool selects role "infra"; a pool of that name with the fragments of worker and infra is assumed
    "#]]
    .assert_eq(&run.stderr);
}

#[test]
fn a_pool_of_the_input_is_rendered_by_its_own_selector() {
    let pool = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfigPool\nmetadata: {name: gpu}\nspec: \
                {machineConfigSelector: {matchExpressions: [{key: machineconfiguration.openshift.io/role, operator: In, values: \
                [worker, gpu]}]}}\n";
    let text = format!("{pool}---\n{}", file("50-w", "worker", "/etc/w", "x"));
    let run = Folder::new(&[("a.yaml", &text)]).run(&["render", "-f", "a.yaml", "--pool", "gpu", "-o", "json"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let config: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(config["spec"]["config"]["storage"]["files"][0]["path"], "/etc/w");
    assert_eq!(config["metadata"]["labels"]["machinist.dev/rendered-for"], "gpu");
}

#[test]
fn standard_input_and_lists_are_read_too() {
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n- {}",
        file("50-w", "worker", "/etc/w", "x").replace('\n', "\n  ")
    );
    let run = Folder::new(&[]).run_with(&["render", "-f", "-"], &list);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(names(&run.stdout), ["worker"]);
}

#[test]
fn a_mode_with_a_leading_zero_is_octal() {
    let folder = Folder::new(&[("a.yaml", &file("50-w", "worker", "/etc/w", "x"))]);
    let run = folder.run(&["render", "-f", "a.yaml", "-o", "json"]);
    assert!(run.stdout.contains("\"mode\": 420"), "{}", run.stdout);
}

#[test]
fn an_object_of_unknown_kind_is_skipped_or_refused() {
    let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: x}\n";
    let folder = Folder::new(&[("a.yaml", &format!("{}---\n{widget}", file("50-w", "worker", "/etc/w", "x")))]);
    let run = folder.run(&["render", "-f", "a.yaml"]);
    assert_eq!(run.code, 0);
    expect![[r#"
        warning: a.yaml, document 2: Widget "x" is skipped: unknown kind
    "#]]
    .assert_eq(&run.stderr);
    let run = folder.run(&["render", "-f", "a.yaml", "--strict"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    expect![[r#"
        error: a.yaml, document 2: Widget "x": unknown kind example.com/v1/Widget
    "#]]
    .assert_eq(&run.stderr);
    let folder = Folder::new(&[("a.yaml", widget)]);
    let run = folder.run(&["render", "-f", "a.yaml"]);
    expect![[r#"
        warning: a.yaml, document 1: Widget "x" is skipped: unknown kind
        error: no MachineConfig to render in the input
    "#]]
    .assert_eq(&run.stderr);
}

#[test]
fn secrets_are_masked_unless_asked_for() {
    let ignition = "{ignition: {version: 3.5.0}, passwd: {users: [{name: core, passwordHash: $6$salt}]}, storage: {files: \
                    [{path: /var/lib/kubelet/config.json, contents: {source: 'data:,%7B%22auths%22:1%7D'}}]}}";
    let folder = Folder::new(&[("a.yaml", &fragment("50-w", "worker", ignition))]);
    let run = folder.run(&["render", "-f", "a.yaml"]);
    assert!(!run.stdout.contains("$6$salt") && !run.stdout.contains("auths"), "{}", run.stdout);
    assert!(run.stdout.contains("source: <masked, 11 bytes>") && run.stdout.contains("passwordHash: <masked>"));
    assert_eq!(run.stderr, "warning: 2 secrets are masked; --show-secrets prints them\n");
    let run = folder.run(&["render", "-f", "a.yaml", "--show-secrets"]);
    assert!(run.stdout.contains("$6$salt") && run.stdout.contains("auths"), "{}", run.stdout);
}

#[test]
fn why_tells_the_fragment_that_won_and_those_it_overrode() {
    let text = format!("{}---\n{}", file("50-w", "worker", "/etc/x", "1"), file("99-w", "worker", "/etc/x", "2"));
    let folder = Folder::new(&[("a.yaml", &text)]);
    let run = folder.run(&["render", "-f", "a.yaml", "--why", "/etc/x"]);
    expect![[r#"
        worker  /etc/x
          from      99-w  (a.yaml, document 2)
          overrode  50-w  (a.yaml, document 1)
          conflict  two fragments give it different contents; the last name wins (50-w, 99-w)
    "#]]
    .assert_eq(&run.stdout);
    let run = folder.run(&["render", "-f", "a.yaml", "--why", "/etc/y"]);
    assert_eq!(run.code, 1);
    assert_eq!(run.stderr.lines().last(), Some("error: /etc/y is in the config of no pool (looked at worker)"));
}

#[test]
fn wrong_use_has_its_own_exit_code() {
    assert_eq!(Folder::new(&[]).run(&["render"]).code, 2);
    assert_eq!(Folder::new(&[]).run(&["render", "-f", "x", "-o", "toml"]).code, 2);
}

#[test]
fn what_is_printed_renders_and_compares_again() {
    let folder = Folder::new(&[("a.yaml", &file("50-w", "worker", "/etc/w", "x"))]);
    let printed = folder.run(&["render", "-f", "a.yaml"]).stdout;
    folder.write("rendered.yaml", printed.as_bytes());
    let run = folder.run(&["diff", "a.yaml", "rendered.yaml"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
}

#[test]
fn an_older_spelling_is_taken_with_a_warning_that_names_todays() {
    let pool = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfigPool\nmetadata: {name: worker}\nspec: \
                {machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: worker}}, machineSelector: \
                {matchLabels: {node-role.kubernetes.io/worker: ''}}}\n";
    let text = format!("{pool}---\n{}", file("50-w", "worker", "/etc/w", "x"));
    let run = Folder::new(&[("a.yaml", &text)]).run(&["render", "-f", "a.yaml"]);
    assert_eq!(run.code, 0);
    expect![[r#"
        warning: a.yaml, document 1: MachineConfigPool "worker": spec.machineSelector is an older spelling; use spec.nodeSelector
    "#]]
    .assert_eq(&run.stderr);
}
