//! The name of a rendered config never changes for the same content.

use api::machineconfiguration::MachineConfigSpec;
use expect_test::expect;
use serde_json::{Value, json};

use crate::mutate::Random;
use crate::world::{config, file, fragment, render, worker};

/// If this fails, every node of every cluster would be touched by an upgrade. Do not update it: give the form a new version, and
/// keep accepting names of the old one.
#[test]
fn the_canonical_form_is_fixed() {
    let all = [
        file("50-a", "/etc/a", "text"),
        fragment("60-b", "worker", json!({"kernelArguments": ["quiet"], "fips": true})),
    ];
    let rendered = render(&worker(), &all).unwrap();
    expect!["rendered-worker-9fa376cb6ba5fac230f8a957c9beb0f2"]
        .assert_eq(rendered.machine_config.metadata.name.as_deref().unwrap());
}

#[test]
fn other_content_has_another_name_and_the_same_content_the_same() {
    let name = |text: &str| render(&worker(), &[file("50-a", "/etc/a", text)]).unwrap().machine_config.metadata.name;
    assert_eq!(name("x"), name("x"));
    assert_ne!(name("x"), name("y"));
    let renamed = render(&worker(), &[file("51-b", "/etc/a", "x")]).unwrap().machine_config.metadata.name;
    assert_eq!(renamed, name("x"), "names of fragments are not content");
}

#[test]
fn a_present_config_of_upstreams_with_the_same_content_keeps_its_name() {
    let mut rendered = render(&worker(), &[file("50-a", "/etc/a", "x")]).unwrap();
    let mut present = rendered.machine_config.clone();
    present.metadata.name = Some("rendered-worker-0123456789abcdef0123456789abcdef".to_owned());
    present.spec.kernel_type = None;
    present.spec.fips = None;
    present.spec.config = Some(json!({
        "ignition": {"version": "3.5.0", "config": {"replace": {"verification": {}}}, "proxy": {}, "timeouts": {}},
        "passwd": {},
        "systemd": {},
        "storage": {"files": [{"path": "/etc/a", "overwrite": true, "group": {}, "user": {}, "contents": {"source": "data:,x", "verification": {}}}]},
    }));
    assert!(render::keep_name(&mut rendered, &present));
    assert_eq!(rendered.machine_config.metadata.name, present.metadata.name);

    present.spec.kernel_arguments = vec!["quiet".to_owned()];
    assert!(!render::keep_name(&mut rendered, &present));
}

#[test]
fn an_archive_gives_the_config_back_and_no_other() {
    let rendered = render(&worker(), &[file("50-a", "/etc/a", "x")]).unwrap().machine_config;
    let name = rendered.metadata.name.clone().unwrap();
    let archive = render::archive(&rendered);
    assert_eq!(render::restore(&archive, "worker", &name).unwrap(), rendered);
    assert!(render::restore(&archive, "worker", "rendered-worker-other").is_err());
    let mut broken = archive;
    broken.data.0.truncate(20);
    assert!(render::restore(&broken, "worker", &name).is_err());
}

/// JSON as another library might write it: members in any order, white space anywhere, letters as escapes.
fn written_otherwise(value: &Value, random: &mut Random) -> String {
    let space = [" ", "\n", "\t  ", ""][random.below(4)];
    let text = |text: &str, random: &mut Random| {
        let letters = text.chars().map(|letter| match letter {
            '"' | '\\' => format!("\\{letter}"),
            letter if letter.is_control() || (random.below(9) == 0 && letter.is_ascii()) => {
                format!("\\u{:04x}", letter as u32)
            }
            letter => letter.to_string(),
        });
        format!("\"{}\"", letters.collect::<String>())
    };
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            for at in (1..members.len()).rev() {
                members.swap(at, random.below(at + 1));
            }
            let members: Vec<String> = members
                .into_iter()
                .map(|(name, value)| {
                    format!("{space}{}{space}:{space}{}", text(name, random), written_otherwise(value, random))
                })
                .collect();
            format!("{{{}{space}}}", members.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> =
                items.iter().map(|item| format!("{space}{}", written_otherwise(item, random))).collect();
            format!("[{}{space}]", items.join(","))
        }
        Value::String(string) => text(string, random),
        other => other.to_string(),
    }
}

/// The same spec as code with other habits would write it: what is the default may be said, and is said here and there.
fn said_otherwise(spec: &MachineConfigSpec, random: &mut Random) -> MachineConfigSpec {
    let mut spec = spec.clone();
    let mut maybe = |change: &mut dyn FnMut()| {
        if random.below(2) == 0 {
            change();
        }
    };
    maybe(&mut || spec.fips = Some(spec.fips.unwrap_or(false)));
    maybe(&mut || spec.kernel_type = spec.kernel_type.clone().or_else(|| Some("default".to_owned())));
    let config = spec.config.as_mut().unwrap();
    maybe(&mut || config["passwd"] = json!({}));
    maybe(&mut || config["ignition"]["timeouts"] = json!({}));
    let files = config.pointer_mut("/storage/files").and_then(Value::as_array_mut).unwrap();
    for file in files.iter_mut() {
        maybe(&mut || file["user"] = json!({}));
        maybe(&mut || {
            let bytes = ignition::data_url::decode(file["contents"]["source"].as_str().unwrap()).unwrap();
            let escaped: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
            file["contents"]["source"] = json!(format!("data:text/plain;charset=utf-8,{escaped}"));
        });
        maybe(&mut || file["contents"]["verification"] = json!({}));
        maybe(&mut || file["contents"]["compression"] = json!(""));
    }
    maybe(&mut || files.reverse());
    spec
}

#[test]
fn however_another_release_writes_a_config_its_name_is_kept_and_no_node_moves() {
    let all = [
        file("50-a", "/etc/a", "text%20with%20%22quotes%22%20and%20%C3%BC"),
        file("51-b", "/etc/b", "x%20y"),
        config("52-c", json!({"systemd": {"units": [{"name": "c.service", "enabled": true, "contents": "[Unit]\n"}]}})),
        fragment("60-d", "worker", json!({"kernelArguments": ["quiet"]})),
    ];
    let rendered = render(&worker(), &all).unwrap();
    let ours = rendered.machine_config.clone();
    let our_name = ours.metadata.name.clone().unwrap();
    for seed in 0..300 {
        let mut random = Random::new(seed);
        // The way of writing alone cannot change the name: it is made of what was read.
        let text = written_otherwise(&serde_json::to_value(&ours.spec).unwrap(), &mut random);
        let read: MachineConfigSpec = serde_json::from_str(&text).unwrap();
        assert_eq!(render::name("worker", &read), our_name, "seed {seed}: {text}");

        // What is said otherwise may have had another name, and keeps it.
        let mut theirs = ours.clone();
        theirs.metadata.name = Some("rendered-worker-of-another-release".to_owned());
        theirs.spec = said_otherwise(&ours.spec, &mut random);
        let mut again = render(&worker(), &all).unwrap();
        assert!(render::keep_name(&mut again, &theirs), "seed {seed}: {:?}", theirs.spec);
        assert_eq!(again.machine_config.metadata.name, theirs.metadata.name);

        let changed = file("53-more", "/etc/a", &format!("other%20{seed}"));
        let mut changed =
            render(&worker(), all.iter().chain([&changed]).cloned().collect::<Vec<_>>().as_slice()).unwrap();
        assert!(!render::keep_name(&mut changed, &theirs), "seed {seed}: a real change is one");
    }
}
