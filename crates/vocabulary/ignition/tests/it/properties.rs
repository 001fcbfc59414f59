//! Properties that hold for every input.

use ignition::{Version, data_url, down, merge};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::mutate::inputs;

/// Arbitrary JSON in which keys that matter occur often.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        prop_oneof![Just("3.5.0"), Just("2.2.0"), Just("data:,x"), Just("/etc/x"), Just("a.service")]
            .prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("ignition".to_owned()),
        Just("version".to_owned()),
        Just("storage".to_owned()),
        Just("files".to_owned()),
        Just("path".to_owned()),
        Just("contents".to_owned()),
        Just("systemd".to_owned()),
        Just("units".to_owned()),
        "[a-z]{0,8}",
    ];
    leaf.prop_recursive(5, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_makes_reading_panic(mut value in any_json(), version in prop::sample::select(&Version::ALL[..])) {
        let _ = ignition::read(&value);
        if value.is_object() {
            value["ignition"] = json!({"version": version.as_str()});
            let _ = ignition::read(&value);
        }
    }

    #[test]
    fn data_urls_survive_encoding_and_decoding(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(data_url::decode(&data_url::encode(&bytes)), Ok(bytes.clone()));
        prop_assert_eq!(data_url::decode(&data_url::escape(&bytes)), Ok(bytes));
    }

    #[test]
    fn checking_a_data_url_agrees_with_decoding_it(
        url in "(data:)?(text/plain|x-y/z|text/)?(;[a-z]{0,3}=[a-z%0-9\"\\\\]{0,4}|;base64){0,2},?[A-Za-z0-9+/=%#\n ]{0,12}",
    ) {
        prop_assert_eq!(data_url::check(&url).is_ok(), data_url::decode(&url).is_ok());
    }
}

fn good_configs() -> Vec<ignition::Config> {
    let mut configs: Vec<_> = inputs("ignition-convert").iter().filter_map(|raw| ignition::parse(raw).ok()).collect();
    configs.extend(inputs("ignition-down").iter().filter_map(|input| ignition::parse(&input["config"]).ok()));
    configs
}

#[test]
fn merging_with_nothing_changes_nothing() {
    for config in good_configs() {
        let plain = ignition::to_value(config.clone());
        assert_eq!(ignition::to_value(merge::merge(ignition::empty(), config.clone())), plain);
        assert_eq!(ignition::to_value(merge::merge(config, ignition::empty())), plain);
    }
}

#[test]
fn merging_a_config_with_itself_changes_only_lists_that_grow() {
    for config in good_configs() {
        let once = without_growing(ignition::to_value(config.clone()));
        let twice = without_growing(ignition::to_value(merge::merge(config.clone(), config)));
        assert_eq!(twice, once);
    }
}

/// Appended parts and options are concatenated by design.
fn without_growing(mut config: Value) -> Value {
    for list in ["files", "filesystems", "raid", "luks"] {
        for entry in config["storage"][list].as_array_mut().into_iter().flatten() {
            for field in ["append", "options", "mountOptions"] {
                entry.as_object_mut().unwrap().remove(field);
            }
        }
    }
    // A header without a value removes itself when it is merged.
    for resource in ["/ignition/security/tls/certificateAuthorities", "/ignition/config/merge"] {
        for entry in config.pointer_mut(resource).and_then(Value::as_array_mut).into_iter().flatten() {
            entry.as_object_mut().unwrap().remove("httpHeaders");
        }
    }
    config
}

#[test]
fn merging_is_associative() {
    let configs = good_configs();
    for three in configs.windows(3) {
        let [a, b, c] = [0, 1, 2].map(|index| three[index].clone());
        let left = merge::merge(merge::merge(a.clone(), b.clone()), c.clone());
        let right = merge::merge(a, merge::merge(b, c));
        assert_eq!(ignition::to_value(left), ignition::to_value(right));
    }
}

#[test]
fn lowering_to_the_newest_changes_nothing_and_what_is_lowered_can_be_read() {
    for config in good_configs() {
        let plain = ignition::to_value(config.clone());
        if let Ok(lowered) = down::lower(config.clone(), Version::NEWEST, Vec::new()) {
            assert_eq!(lowered.config, plain);
        }
        for version in Version::SERVED.into_iter().filter(|version| *version >= Version::V3_1) {
            if let Ok(lowered) = down::lower(config.clone(), version, Vec::new()) {
                let read = ignition::read(&lowered.config).unwrap();
                let unused = read.warnings.iter().find(|warning| warning.message.contains("unused key"));
                assert_eq!((read.version, unused), (version, None));
            }
        }
    }
}
