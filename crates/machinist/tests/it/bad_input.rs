//! Every sort of bad input: one clear error with file, object and field, exit code 1, and nothing on standard output.

use expect_test::{Expect, expect};

use crate::{Folder, fragment};

#[track_caller]
fn check_bytes(text: &[u8], expected: Expect) {
    let folder = Folder::new(&[]);
    folder.write("a.yaml", text);
    let run = folder.run(&["render", "-f", "a.yaml"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{}", run.stderr);
    expected.assert_eq(&run.stderr);
}

#[track_caller]
fn check(text: &str, expected: Expect) {
    check_bytes(text.as_bytes(), expected);
}

#[track_caller]
fn check_ignition(ignition: &str, expected: Expect) {
    check(&fragment("50-x", "worker", ignition), expected);
}

#[test]
fn yaml_that_does_not_parse() {
    check(
        "apiVersion: v1\nkind: [x\n",
        expect![[r#"
        error: a.yaml, document 1: not valid YAML at line 2, column 7: unclosed bracket '['
    "#]],
    );
    check(
        &format!("{}---\na: 1\n  b: 2\n", fragment("50-x", "worker", "{}")),
        expect![[r#"
        error: a.yaml, document 2: not valid YAML at line 11, column 4: mapping values are not allowed in this context
    "#]],
    );
    check(
        "{\"apiVersion\": \"v1\"",
        expect![[r#"
        error: a.yaml, document 1: not valid JSON at line 1, column 19: EOF while parsing an object
    "#]],
    );
}

#[test]
fn not_an_object() {
    check(
        "- a\n",
        expect![[r#"
        error: a.yaml, document 1: not an object with apiVersion and kind
    "#]],
    );
    check(
        "apiVersion: v1\n",
        expect![[r#"
        error: a.yaml, document 1: kind is not set
    "#]],
    );
    check(
        "apiVersion: v1\nkind: MachineConfig\n",
        expect![[r#"
        error: a.yaml, document 1: MachineConfig "": metadata.name: not set
    "#]],
    );
}

#[test]
fn a_field_of_the_wrong_type() {
    let text = fragment("50-x", "worker", "{ignition: {version: 3.2.0}}");
    check(
        &format!("{text}  kernelArguments: quiet\n"),
        expect![[r#"
        error: a.yaml, document 1: MachineConfig "50-x": spec.kernelArguments: invalid type: string "quiet", expected a sequence
    "#]],
    );
    check_ignition(
        "{ignition: {version: 3.2.0}, storage: {files: [{path: /a, mode: '0644'}]}}",
        expect![[r#"
        error: a.yaml, document 1: MachineConfig "50-x": spec.config.storage.files[0].mode: expected a whole number, found a string
    "#]],
    );
}

#[test]
fn a_machine_config_without_a_role_label() {
    let text = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata: {name: 50-x}\n";
    check(
        text,
        expect![[r#"
        error: a.yaml, document 1: MachineConfig "50-x": metadata.labels: label machineconfiguration.openshift.io/role is missing, so no pool can select it; set it to the pool's name
    "#]],
    );
}

#[test]
fn ignition_of_an_unsupported_version() {
    check_ignition(
        "{ignition: {version: 3.9.0}}",
        expect![[r#"
        error: a.yaml, document 1: MachineConfig "50-x": spec.config.ignition.version: unknown version 3.9.0 (allowed: 2.0.0, 2.1.0, 2.2.0, 3.0.0, 3.1.0, 3.2.0, 3.3.0, 3.4.0, 3.5.0)
    "#]],
    );
    check_ignition(
        "{}",
        expect![[r#"
        error: a.yaml, document 1: MachineConfig "50-x": spec.config.ignition.version: invalid version: ignition.version is missing (allowed: 2.0.0, 2.1.0, 2.2.0, 3.0.0, 3.1.0, 3.2.0, 3.3.0, 3.4.0, 3.5.0)
    "#]],
    );
}

#[test]
fn a_spec_2_file_on_a_filesystem_other_than_root() {
    check_ignition(
        "{ignition: {version: 2.2.0}, storage: {files: [{filesystem: data, path: /a, contents: {source: 'data:,'}}]}}",
        expect![[r#"
            error: a.yaml, document 1: MachineConfig "50-x": spec.config.storage.files[0].filesystem: filesystem "data" of "/a" is not root: its mount point is unknown (allowed: root)
        "#]],
    );
}

#[test]
fn networkd_units() {
    check_ignition(
        "{ignition: {version: 2.2.0}, networkd: {units: [{name: a.network, contents: x}]}}",
        expect![[r#"
        error: a.yaml, document 1: MachineConfig "50-x": spec.config.networkd.units: config includes deprecated networkd section - use Files instead
    "#]],
    );
}

#[test]
fn two_entries_for_one_path_within_a_spec_3_fragment() {
    check_ignition(
        "{ignition: {version: 3.2.0}, storage: {files: [{path: /a}, {path: /a}]}}",
        expect![[r#"
        error: a.yaml, document 1: MachineConfig "50-x": spec.config.storage.files[1]: duplicate entry defined: "/a"
    "#]],
    );
}

#[test]
fn a_user_other_than_core_in_spec_2() {
    check_ignition(
        "{ignition: {version: 2.2.0}, passwd: {users: [{name: bob}]}}",
        expect![[r#"
        error: a.yaml, document 1: MachineConfig "50-x": spec.config.passwd.users[0].name: unexpected user with name: bob. Only core user is supported (allowed: core)
    "#]],
    );
}

#[test]
fn a_bad_data_url() {
    check_ignition(
        "{ignition: {version: 3.2.0}, storage: {files: [{path: /a, contents: {source: 'data:;base64,%%%'}}]}}",
        expect![[r#"
            error: a.yaml, document 1: MachineConfig "50-x": spec.config.storage.files[0].contents.source: invalid data character at byte 13: "data:;base64,%%%" (allowed: data, http, https, s3, gs, tftp)
        "#]],
    );
}

#[test]
fn a_gzip_bomb() {
    let bomb = gzipped_zeros(40 << 20);
    check_ignition(
        &format!(
            "{{ignition: {{version: 3.2.0}}, storage: {{files: [{{path: /a, contents: {{compression: gzip, source: '{bomb}'}}}}]}}}}"
        ),
        expect![[r#"
            error: a.yaml, document 1: MachineConfig "50-x": spec.config.storage.files[0].contents: /a: decompressed contents exceed 33554432 bytes
        "#]],
    );
}

#[test]
fn a_path_that_is_relative_or_climbs() {
    check_ignition(
        "{ignition: {version: 3.2.0}, storage: {files: [{path: etc/a}]}}",
        expect![[r#"
        error: a.yaml, document 1: MachineConfig "50-x": spec.config.storage.files[0].path: path not absolute: "etc/a" (allowed: an absolute path without //, . or ..)
    "#]],
    );
    check_ignition(
        "{ignition: {version: 3.2.0}, storage: {files: [{path: /etc/../a}]}}",
        expect![[r#"
        error: a.yaml, document 1: MachineConfig "50-x": spec.config.storage.files[0].path: path is not fully simplified: "/etc/../a" (allowed: an absolute path without //, . or ..)
    "#]],
    );
}

#[test]
fn a_mode_with_unknown_bits() {
    check_ignition(
        "{ignition: {version: 3.2.0}, storage: {files: [{path: /a, mode: 010644}]}}",
        expect![[r#"
        error: a.yaml, document 1: MachineConfig "50-x": spec.config.storage.files[0].mode: illegal file mode 4516 (octal 10644) (allowed: 0 to 4095, octal 0 to 7777)
    "#]],
    );
}

#[test]
fn a_kernel_devel_extension_with_a_realtime_kernel() {
    let text = fragment("50-x", "worker", "{ignition: {version: 3.2.0}}");
    check(
        &format!("{text}  extensions: [kernel-devel]\n  kernelType: realtime\n"),
        expect![[r#"
        error: a.yaml, document 1: MachineConfig "50-x": spec.extensions: installing kernel-devel extension is not supported with kernelType: realtime
    "#]],
    );
}

#[test]
fn an_object_over_the_apis_size_limit() {
    let big = "x".repeat(1_600_000);
    check_ignition(
        &format!(
            "{{ignition: {{version: 3.2.0}}, storage: {{files: [{{path: /a, contents: {{source: 'data:,{big}'}}}}]}}}}"
        ),
        expect![[r#"
            error: a.yaml, document 1: MachineConfig "50-x": too large: 1600282 bytes as JSON, and the API takes at most 1572864; split it into several objects
        "#]],
    );
}

#[test]
fn a_rendered_config_over_the_apis_size_limit() {
    let big = "x".repeat(900_000);
    let one = |name: &str| {
        let ignition = format!(
            "{{ignition: {{version: 3.2.0}}, storage: {{files: [{{path: /{name}, contents: {{source: 'data:,{big}'}}}}]}}}}"
        );
        fragment(name, "worker", &ignition)
    };
    check(
        &format!("{}---\n{}", one("50-x"), one("51-y")),
        expect![[r#"
        error: MachineConfig "rendered-worker-eaa716e7f2d7c11cd2bbf30f3f09c45f": spec: rendered MachineConfig rendered-worker-eaa716e7f2d7c11cd2bbf30f3f09c45f is too large (1800435 bytes, max 1572864 bytes): make fragments fewer or smaller
    "#]],
    );
}

#[test]
fn text_that_is_not_utf_8() {
    check_bytes(
        b"apiVersion: v1\nkind: \xff\xfe\n",
        expect![[r#"
        error: a.yaml: not UTF-8 text: byte 21 is wrong
    "#]],
    );
}

#[test]
fn two_fragments_of_one_name() {
    let text = fragment("50-x", "worker", "{ignition: {version: 3.2.0}}");
    check(
        &format!("{text}---\n{text}"),
        expect![[r#"
        error: a.yaml, document 2: MachineConfig "50-x": metadata.name: already used by the MachineConfig in a.yaml, document 1
    "#]],
    );
}

#[test]
fn a_policy_that_cannot_be_followed() {
    let text = "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata: {name: cluster}\nspec: \
                {nodeDisruptionPolicy: {files: [{path: /a, actions: [{type: Restart}]}]}}\n";
    check(
        text,
        expect![[r#"
        error: a.yaml, document 1: MachineConfiguration "cluster": spec.nodeDisruptionPolicy.files[0].actions[0]: Restart names no service; set restart.serviceName
    "#]],
    );
}

#[test]
fn nothing_to_render() {
    check(
        "# nothing\n",
        expect![[r#"
        error: no MachineConfig to render in the input
    "#]],
    );
    let run = Folder::new(&[]).run(&["render", "-f", "missing.yaml"]);
    assert_eq!(run.code, 1);
    expect![[r#"
        error: cannot read missing.yaml: No such file or directory (os error 2)
    "#]]
    .assert_eq(&run.stderr);
    let run = Folder::new(&[("folder/readme.txt", "x")]).run(&["render", "-f", "folder"]);
    expect![[r#"
        error: folder: no manifests found (files end in .yaml, .yml or .json)
    "#]]
    .assert_eq(&run.stderr);
}

#[test]
fn every_problem_of_a_fragment_is_told_at_once() {
    check_ignition(
        "{ignition: {version: 3.2.0}, storage: {files: [{path: a}, {path: /b, contents: {compression: xz, source: 'data:,'}}]}}",
        expect![[r#"
            error: a.yaml, document 1: MachineConfig "50-x": spec.config.storage.files[0].path: path not absolute: "a" (allowed: an absolute path without //, . or ..)
            error: a.yaml, document 1: MachineConfig "50-x": spec.config.storage.files[1].contents.compression: invalid compression method "xz" (allowed: gzip)
        "#]],
    );
}

/// A data URL of this many zero bytes, compressed. Gzip allows parts in a row, so one part is made and repeated.
fn gzipped_zeros(size: usize) -> String {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&vec![0; 1 << 20]).unwrap();
    let part = encoder.finish().unwrap();
    ignition::data_url::encode(&part.repeat(size >> 20))
}
