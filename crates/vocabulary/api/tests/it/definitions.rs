//! Requirements of a real API server on CRDs, checked without a server.

use serde_json::Value;

use crate::every_kind::kinds;

#[test]
fn definitions_are_the_same_each_time() {
    assert_eq!(api::crds(), api::crds());
}

#[test]
fn every_schema_is_structural() {
    for kind in kinds() {
        for (path, schema) in nodes(&kind.schema(), "") {
            let place = format!("{}{path}", kind.name());
            let free = schema.get("x-kubernetes-int-or-string").is_some();
            assert!(free || schema["type"].is_string(), "{place} has no type: {schema}");
            assert!(schema.get("$ref").is_none(), "{place} refers elsewhere");
            assert!(
                schema.get("properties").is_none() || schema.get("additionalProperties").is_none(),
                "{place} has properties and additionalProperties"
            );
            for key in schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten() {
                let items = &schema["items"];
                let key = key.as_str().unwrap();
                let required = items["required"].as_array().is_some_and(|names| names.iter().any(|name| name == key));
                let default = items["properties"][key].get("default").is_some();
                assert!(required || default, "{place}: key {key} is neither required nor defaulted");
            }
        }
    }
}

#[test]
fn no_default_is_generated_by_accident() {
    let mut defaults = Vec::new();
    for kind in kinds() {
        for (path, schema) in nodes(&kind.schema(), "") {
            if let Some(default) = schema.get("default") {
                defaults.push(format!("{}{path} = {default}", kind.name().split('.').next().unwrap()));
            }
        }
    }
    let is_platform = |line: &String| line.contains("/spec/infra/") || line.starts_with("infrastructures/");
    let platforms = defaults.iter().filter(|line| is_platform(line)).count();
    defaults.retain(|line| !is_platform(line));
    assert_eq!(platforms, 42, "once in a ControllerConfig and once in the kind itself");
    assert_eq!(
        defaults,
        [
            r#"machineosconfigs/spec/containerFile/items/containerfileArch = "NoArch""#,
            r#"machineconfigurations/spec/logLevel = "Normal""#,
            r#"machineconfigurations/spec/operatorLogLevel = "Normal""#,
            r#"apiservers/spec/audit = {"profile":"Default"}"#,
            r#"apiservers/spec/audit/profile = "Default""#,
            "machinesets/spec/replicas = 1",
            r#"machinehealthchecks/spec/maxUnhealthy = "100%""#,
            r#"machinehealthchecks/spec/nodeStartupTimeout = "10m""#,
            "controlplanemachinesets/spec/replicas = 3",
            r#"controlplanemachinesets/spec/state = "Inactive""#,
            r#"controlplanemachinesets/spec/strategy = {"type":"RollingUpdate"}"#,
            r#"controlplanemachinesets/spec/strategy/type = "RollingUpdate""#,
            "bootstraptokens/status/uses = 0",
        ]
    );
}

#[test]
fn the_columns_of_pools_are_what_runbooks_expect() {
    let pools = kinds().into_iter().find(|kind| kind.name().starts_with("machineconfigpools.")).unwrap();
    let columns = pools.definition.spec.versions[0].additional_printer_columns.clone().unwrap();
    let names: Vec<_> = columns.iter().map(|column| column.name.to_uppercase()).collect();
    assert_eq!(
        names.join(" "),
        "CONFIG UPDATED UPDATING DEGRADED MACHINECOUNT READYMACHINECOUNT UPDATEDMACHINECOUNT DEGRADEDMACHINECOUNT AGE"
    );
}

/// Returns every schema inside a schema, with its path.
fn nodes(schema: &Value, path: &str) -> Vec<(String, Value)> {
    let mut found = vec![(path.to_owned(), schema.clone())];
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        found.extend(nodes(property, &format!("{path}/{name}")));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(below) = schema.get(key).filter(|below| below.is_object()) {
            found.extend(nodes(below, &format!("{path}/{key}")));
        }
    }
    found
}
