//! What holds for every pair of configs, whatever is in them.

use api::machineconfiguration::{MachineConfig, MachineConfigSpec};
use change::content::Content;
use change::diff::Diff;
use change::disruption::Disruption;
use change::policy::{Policies, Settings};
use change::reconcilable::{Allowances, obstacles};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Sources of every sort: plain, encoded, compressed, broken, remote.
fn source() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "data:,[a-c]{0,2}",
        8 => "data:;base64,([A-Z]{4}){0,2}",
        4 => Just("data:;base64,H4sIAAAAAAAA/0rMKchI5AIEAAD//+xuYJ8GAAAA".to_owned()),
        1 => Just("https://example.com/x".to_owned()),
        1 => ".{0,12}",
    ]
}

fn file() -> impl Strategy<Value = Value> {
    let path = prop::sample::select(vec!["/etc/a", "/etc/b", "/etc/containers/registries.conf", "/etc/my/app/c"]);
    let mode = prop::option::of(0..0o1000i64);
    (path, source(), mode, any::<bool>()).prop_map(|(path, source, mode, gzip)| {
        let compression = if gzip { Some("gzip") } else { None };
        json!({"path": path, "mode": mode, "contents": {"source": source, "compression": compression}})
    })
}

fn unit() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["a.service", "b.service", "iri-registry.service"]);
    (name, prop::option::of(any::<bool>()), prop::option::of("\\[Unit\\]\n[a-z]*=.*"))
        .prop_map(|(name, enabled, contents)| json!({"name": name, "enabled": enabled, "contents": contents}))
}

/// Configs that may or may not be valid.
fn config() -> impl Strategy<Value = MachineConfig> {
    let lists = (prop::collection::vec(file(), 0..5), prop::collection::vec(unit(), 0..4));
    let users = prop::collection::vec(("core|bob", prop::collection::vec("[a-z]{1,3}", 0..3)), 0..2);
    let arguments = prop::collection::vec("[a-z]{1,3}", 0..3);
    (lists, users, arguments, any::<bool>()).prop_map(|((files, units), users, kernel_arguments, fips)| {
        let users: Vec<_> =
            users.into_iter().map(|(name, keys)| json!({"name": name, "sshAuthorizedKeys": keys})).collect();
        let ignition = json!({
            "ignition": {"version": "3.4.0"},
            "passwd": {"users": users}, "storage": {"files": files}, "systemd": {"units": units},
        });
        let spec = MachineConfigSpec {
            config: Some(ignition),
            kernel_arguments,
            fips: Some(fips),
            ..MachineConfigSpec::default()
        };
        MachineConfig::new("x", spec)
    })
}

/// The same config with each list turned round.
fn reversed(config: &MachineConfig) -> MachineConfig {
    let mut config = config.clone();
    let ignition = config.spec.config.as_mut().unwrap();
    for list in ["/storage/files", "/systemd/units", "/passwd/users"] {
        ignition.pointer_mut(list).unwrap().as_array_mut().unwrap().reverse();
    }
    config
}

proptest! {
    #[test]
    fn nothing_differs_from_itself(one in config()) {
        if let Ok(content) = Content::read(&one) {
            prop_assert!(Diff::between(&content, &content).is_empty());
            let again = Content::read(&reversed(&one)).unwrap();
            prop_assert!(Diff::between(&content, &again).is_empty());
        }
    }

    #[test]
    fn the_verdict_does_not_depend_on_order(old in config(), new in config()) {
        let verdict = |old: &MachineConfig, new: &MachineConfig| {
            let (old, new) = Content::read_both(old, new).ok()?;
            let diff = Diff::between(&old, &new);
            let policies = Policies::defaults(&Settings::default());
            let obstacles = obstacles(&diff, &new, &Settings::default(), &Allowances::default());
            let disruption = Disruption::of(&diff, &policies);
            Some((diff, obstacles, disruption))
        };
        prop_assert_eq!(verdict(&old, &new), verdict(&reversed(&old), &reversed(&new)));
    }

    #[test]
    fn a_change_and_its_way_back_touch_the_same_names(old in config(), new in config()) {
        if let Ok((old, new)) = Content::read_both(&old, &new) {
            let names = |diff: Diff| diff.files.into_iter().map(|change| change.name).collect::<Vec<_>>();
            prop_assert_eq!(names(Diff::between(&old, &new)), names(Diff::between(&new, &old)));
        }
    }

    #[test]
    fn no_json_of_any_kind_panics(text in "[\\[\\]{}\":,a-z0-9 .]{0,64}", registries in ".{0,80}") {
        let ignition = serde_json::from_str(&text).ok();
        let config = MachineConfig::new("x", MachineConfigSpec { config: ignition, ..Default::default() });
        let _ = Content::read(&config);
        let _ = change::registries::unsafe_because(Some(registries.as_bytes()), Some(text.as_bytes()));
    }
}
