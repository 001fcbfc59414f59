//! `operator-config`: what the operator deploys for a platform.

use machine::operator_config::{
    Container, Controllers, Deployment, Env, Proxy, Snapshot, TlsSettings, plan, platform_of,
};
use serde_json::{Value, json};

use super::fleet::list;
use super::judge::{Check, Expected, Judge, Rule};
use super::same;

pub(crate) struct OperatorConfig;

impl Judge for OperatorConfig {
    fn file(&self) -> &'static str {
        "operator-config"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let gates = list(&input["enabledFeatureGates"]).filter_map(Value::as_str).map(str::to_owned);
        let snapshot = Snapshot {
            platform: platform_of(&input["infrastructure"]),
            images: input["images"].clone(),
            enabled_features: gates.collect(),
            proxy: Proxy::from_object(&input["proxy"]),
            tls: TlsSettings::from_object(&input["apiServer"]),
            namespace: input["namespace"].as_str().unwrap_or_default().to_owned(),
            release_version: String::new(),
        };
        let plan = plan(&snapshot).map_err(|error| error.to_string())?;
        let Controllers {
            machine_set,
            node_link,
            machine_health_check,
            provider,
            termination_handler,
            kube_rbac_proxy,
        } = plan.controllers;
        let (deploys, containers, termination) = match plan.deployment {
            Deployment::Run { containers, termination } => (true, shown(&containers), shown(&termination)),
            Deployment::NoOp(_) => (false, Value::Null, Value::Null),
        };
        Ok(json!({
            "platform": plan.platform,
            "features": plan.features,
            "deploys": deploys,
            "containers": containers,
            "terminationContainers": termination,
            "controllers": {
                "machineSet": machine_set,
                "nodeLink": node_link,
                "machineHealthCheck": machine_health_check,
                "provider": provider,
                "terminationHandler": termination_handler,
                "kubeRBACProxy": kube_rbac_proxy,
            },
        }))
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        same::object_difference(expected, ours)
    }

    fn phrases(&self, error: &str) -> Vec<String> {
        let known = [
            ("kubeRBACProxy image", "kubeRBACProxy image"),
            ("MachineAPIOperator image", "MachineAPIOperator image"),
            ("custom TLS profile", "custom TLS profile"),
            ("Images.", "images."),
            ("cannot unmarshal", "cannot unmarshal"),
            ("no platform", "no platform"),
        ];
        let phrase = known.iter().find(|(theirs, _)| error.contains(theirs));
        vec![phrase.map_or(error, |(_, ours)| ours).to_owned()]
    }
}

fn shown(containers: &[Container]) -> Value {
    let one = |container: &Container| {
        let Container { name, image, command, args, env } = container;
        let env: Vec<_> = env
            .iter()
            .map(|env| match env {
                Env::Value { name, value } => format!("{name}={value}"),
                Env::Field { name, path } => format!("{name}<-{path}"),
            })
            .collect();
        json!({"name": name, "image": image, "command": command, "args": args, "env": env})
    };
    containers.iter().map(one).collect()
}

const RULES: &[Rule] = &[
    Rule {
        name: "a-profile-that-is-not-followed-stops-nothing",
        covers: |input| {
            let spec = &input["apiServer"]["spec"];
            spec["tlsAdherence"] != json!("StrictAllComponents")
                && spec["tlsSecurityProfile"]["type"] == json!("Custom")
        },
        answer: profile_is_ignored,
    },
    Rule {
        name: "platforms-without-a-provider-of-ours-are-no-ops",
        covers: |input| matches!(platform(input), "IBMCloud" | "PowerVS" | "Nutanix"),
        answer: no_op,
    },
    Rule {
        name: "platforms-we-still-have-run-when-they-have-an-image",
        covers: |input| {
            let key = match platform(input) {
                "Libvirt" => "clusterAPIControllerLibvirt",
                "oVirt" => "clusterAPIControllerOvirt",
                _ => return false,
            };
            input["images"][key].as_str().is_some_and(|image| !image.is_empty())
        },
        answer: |_, expected| match expected {
            Expected::Output(_) => Expected::Checked(Check(|_, ours| {
                (ours["deploys"] != json!(true)).then(|| "nothing is deployed".to_owned())
            })),
            other => other,
        },
    },
    Rule { name: "an-empty-provider-image-is-refused", covers: |_| true, answer: empty_image },
    Rule {
        name: "kubemark-is-simulated-by-our-own-image",
        covers: |input| platform(input) == "kubemark",
        answer: kubemark,
    },
    Rule { name: "the-proxy-is-the-one-that-was-checked", covers: |_| true, answer: checked_proxy },
];

fn platform(input: &Value) -> &str {
    input["infrastructure"]["status"]["platformStatus"]["type"].as_str().unwrap_or_default()
}

/// Upstream refuses; ours returns the result without a profile.
fn profile_is_ignored(input: &Value, expected: Expected) -> Expected {
    let Expected::Refusal(phrases) = &expected else { return expected };
    if !phrases.iter().any(|phrase| phrase.contains("custom TLS profile")) {
        return expected;
    }
    let mut without = input.clone();
    without["apiServer"] = json!({});
    match OperatorConfig.answer(&without) {
        // Other cases judge our result without a profile.
        Ok(output) => Expected::Output(output),
        Err(error) => Expected::Refusal(vec![error]),
    }
}

fn no_op(_: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    output["deploys"] = json!(false);
    output["containers"] = Value::Null;
    output["controllers"]["provider"] = json!("no-op");
    Expected::Output(output)
}

fn empty_image(input: &Value, expected: Expected) -> Expected {
    match &expected {
        Expected::Output(output)
            if output["deploys"] == json!(true) && output["controllers"]["provider"] == json!("") =>
        {
            Expected::Refusal(vec![format!("clusterAPIController{}", platform(input))])
        }
        _ => expected,
    }
}

fn kubemark(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let named = input["images"]["clusterAPIControllerKubemark"].as_str().filter(|image| !image.is_empty());
    let image = named.map_or(input["images"]["machineAPIOperator"].clone(), |image| json!(image));
    output["controllers"]["provider"] = image.clone();
    for container in output["containers"].as_array_mut().into_iter().flatten() {
        if container["name"] == json!("machine-controller") {
            container["image"] = image.clone();
        }
    }
    Expected::Output(output)
}

/// Upstream checks for a proxy in status and then uses the one in spec.
fn checked_proxy(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let status = &input["proxy"]["status"];
    for key in ["containers", "terminationContainers"] {
        for container in output[key].as_array_mut().into_iter().flatten() {
            for env in container["env"].as_array_mut().into_iter().flatten() {
                let text = env.as_str().unwrap_or_default().to_owned();
                for (name, field) in
                    [("HTTP_PROXY=", "httpProxy"), ("HTTPS_PROXY=", "httpsProxy"), ("NO_PROXY=", "noProxy")]
                {
                    if text.starts_with(name) {
                        *env = json!(format!("{name}{}", status[field].as_str().unwrap_or_default()));
                    }
                }
            }
        }
    }
    Expected::Output(output)
}
