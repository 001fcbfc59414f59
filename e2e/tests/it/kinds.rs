//! Our CRDs on both API servers, the real and the embedded one: they are accepted, keep and print the expected fields,
//! and refuse invalid objects.

mod refusals;

use std::collections::BTreeMap;
use std::process::Output;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use serde_json::Value;
use testkit::{ControlPlane, Kind, control_plane, needs, wait_for_all};

const SAMPLES: &str = include_str!("kinds/samples.yaml");

/// The header line of `kubectl get` for each kind. Namespaced kinds are requested in their namespace.
const COLUMNS: &[(&str, &str)] = &[
    ("apiservers.config.openshift.io", "NAME AGE"),
    ("bootstraptokens.machinist.dev", "NAME POOL USES MAXUSES EXPIRES AGE"),
    ("clusterimagepolicies.config.openshift.io", "NAME AGE"),
    ("clusteroperators.config.openshift.io", "NAME VERSION AVAILABLE PROGRESSING DEGRADED SINCE MESSAGE"),
    ("clusters.cluster.k8s.io", "NAME AGE"),
    ("clustersettings.machinist.dev", "NAME ADMINUSER RUNTIMESERVICE PROFILE AGE"),
    ("containerruntimeconfigs.machineconfiguration.openshift.io", "NAME AGE"),
    ("controllerconfigs.machineconfiguration.openshift.io", "NAME AGE"),
    ("controlplanemachinesets.machine.openshift.io", "NAME DESIRED CURRENT READY UPDATED UNAVAILABLE STATE AGE"),
    ("featuregates.config.openshift.io", "NAME AGE"),
    ("imagecontentsourcepolicies.operator.openshift.io", "NAME AGE"),
    ("imagedigestmirrorsets.config.openshift.io", "NAME AGE"),
    ("imagepolicies.config.openshift.io", "NAME AGE"),
    ("images.config.openshift.io", "NAME AGE"),
    ("imagetagmirrorsets.config.openshift.io", "NAME AGE"),
    ("infrastructures.config.openshift.io", "NAME AGE"),
    ("keptconfigs.machinist.dev", "NAME VERSION AGE"),
    ("kubeletconfigs.machineconfiguration.openshift.io", "NAME AGE"),
    ("machineconfignodes.machineconfiguration.openshift.io", "NAME POOLNAME DESIREDCONFIG CURRENTCONFIG UPDATED AGE"),
    (
        "machineconfigpools.machineconfiguration.openshift.io",
        "NAME CONFIG UPDATED UPDATING DEGRADED MACHINECOUNT READYMACHINECOUNT UPDATEDMACHINECOUNT DEGRADEDMACHINECOUNT AGE",
    ),
    ("machineconfigs.machineconfiguration.openshift.io", "NAME GENERATEDBYCONTROLLER IGNITIONVERSION AGE"),
    ("machineconfigurations.operator.openshift.io", "NAME AGE"),
    ("machinedeployments.cluster.k8s.io", "NAME AGE"),
    ("machinedeployments.machine.openshift.io", "NAME DESIRED CURRENT UPDATED AVAILABLE AGE"),
    ("machinehealthchecks.healthchecking.openshift.io", "NAME AGE"),
    ("machinehealthchecks.machine.openshift.io", "NAME MAXUNHEALTHY EXPECTEDMACHINES CURRENTHEALTHY"),
    ("machineosbuilds.machineconfiguration.openshift.io", "NAME PREPARED BUILDING SUCCEEDED INTERRUPTED FAILED AGE"),
    ("machineosconfigs.machineconfiguration.openshift.io", "NAME AGE"),
    ("machines.cluster.k8s.io", "NAME AGE"),
    ("machines.machine.openshift.io", "NAME PHASE TYPE REGION ZONE AGE"),
    ("machinesets.cluster.k8s.io", "NAME AGE"),
    ("machinesets.machine.openshift.io", "NAME DESIRED CURRENT READY AVAILABLE AGE"),
    ("nodes.config.openshift.io", "NAME AGE"),
    ("nodesurveys.machinist.dev", "NAME REQUEST AGE"),
    ("pinnedimagesets.machineconfiguration.openshift.io", "NAME AGE"),
    ("poolledgers.machinist.dev", "NAME TARGET SINCE BUDGET CLAIMED AGE"),
    ("poolpolicies.machinist.dev", "NAME SETTLE DRIFT TRIALDEADLINE AGE"),
    ("proxies.config.openshift.io", "NAME AGE"),
    ("renderedprovenances.machinist.dev", "NAME POOL AGE"),
    ("schedulers.config.openshift.io", "NAME AGE"),
];

/// The same for `-o wide`, for kinds with more columns.
const WIDE_COLUMNS: &[(&str, &str)] = &[
    ("machines.machine.openshift.io", "NAME PHASE TYPE REGION ZONE AGE NODE PROVIDERID STATE"),
    (
        "machineconfignodes.machineconfiguration.openshift.io",
        "NAME POOLNAME DESIREDCONFIG CURRENTCONFIG UPDATED AGE UPDATEPREPARED UPDATEEXECUTED UPDATEPOSTACTIONCOMPLETE UPDATECOMPLETE RESUMED UPDATEDFILESANDOS CORDONEDNODE DRAINEDNODE REBOOTEDNODE UNCORDONEDNODE",
    ),
];

#[tokio::test]
async fn a_real_server_accepts_every_kind_and_refuses_what_its_rules_forbid() {
    every_kind_is_taken_and_held_to_its_rules(Kind::Real).await;
}

#[tokio::test]
async fn the_embedded_server_accepts_every_kind_and_refuses_what_its_rules_forbid() {
    every_kind_is_taken_and_held_to_its_rules(Kind::Embedded).await;
}

async fn every_kind_is_taken_and_held_to_its_rules(kind: Kind) {
    if !needs::kubectl() {
        return;
    }
    let Some(control_plane) = control_plane(kind).await else {
        return;
    };
    install_generated_files(&control_plane).await;
    apply(&control_plane, SAMPLES);
    every_kind_prints_its_columns(&control_plane);
    short_names_work(&control_plane);
    defaults_are_filled_in(&control_plane);
    only_what_the_schema_names_is_kept(&control_plane);
    older_spellings_are_kept_for_translation(&control_plane);
    refusals::what_the_rules_forbid_is_refused(&control_plane);
}

/// Installs the generated files that users apply and not the current types: the two are equal only if the files were
/// regenerated.
async fn install_generated_files(control_plane: &ControlPlane) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests/crds");
    control_plane.kubectl(&["apply", "--server-side", "-f", folder]);
    let definitions: Api<CustomResourceDefinition> = Api::all(control_plane.client().await);
    let stored = wait_for_all(&definitions, "every definition to be established", |all| {
        all.len() == COLUMNS.len() && all.iter().all(|definition| condition(definition, "Established"))
    })
    .await;
    for definition in stored {
        let name = definition.metadata.name.as_deref().unwrap_or_default();
        assert!(!condition(&definition, "NonStructuralSchema"), "{name} is not structural");
        assert!(condition(&definition, "NamesAccepted"), "{name} collides with another");
    }
}

fn condition(definition: &CustomResourceDefinition, name: &str) -> bool {
    let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == name && condition.status == "True")
}

#[track_caller]
fn apply(control_plane: &ControlPlane, manifest: &str) {
    let output = try_apply(control_plane, manifest);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Server-side, because client-side apply drops nulls, and a ControllerConfig needs some.
fn try_apply(control_plane: &ControlPlane, manifest: &str) -> Output {
    // Without the separator, kubectl parses a manifest in braces as JSON.
    let manifest = format!("---\n{manifest}");
    control_plane.try_kubectl(&["apply", "--server-side", "--force-conflicts", "-f", "-"], Some(&manifest))
}

fn every_kind_prints_its_columns(control_plane: &ControlPlane) {
    let header = |arguments: &[&str]| {
        let printed = control_plane.kubectl(arguments);
        printed.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (kind, columns) in COLUMNS {
        assert_eq!(header(&["get", kind]), *columns, "kubectl get {kind}");
    }
    for (kind, columns) in WIDE_COLUMNS {
        assert_eq!(header(&["get", kind, "-o", "wide"]), *columns, "kubectl get {kind} -o wide");
    }
}

fn short_names_work(control_plane: &ControlPlane) {
    for (short, object) in [
        ("mc", "machineconfig.machineconfiguration.openshift.io/99-worker-chrony"),
        ("mcp", "machineconfigpool.machineconfiguration.openshift.io/infra"),
        ("ctrcfg", "containerruntimeconfig.machineconfiguration.openshift.io/set-pids"),
        ("co", "clusteroperator.config.openshift.io/machine-config"),
        ("mhc", "machinehealthcheck.machine.openshift.io/workers"),
    ] {
        assert_eq!(control_plane.kubectl(&["get", short, "-o", "name"]).trim(), object, "kubectl get {short}");
    }
}

fn defaults_are_filled_in(control_plane: &ControlPlane) {
    let set = get(control_plane, "machineset.machine.openshift.io/worker");
    assert_eq!(set["spec"]["replicas"], 1);
    let check = get(control_plane, "machinehealthcheck.machine.openshift.io/workers");
    assert_eq!((&check["spec"]["maxUnhealthy"], &check["spec"]["nodeStartupTimeout"]), (&"100%".into(), &"10m".into()));
    let settings = get(control_plane, "machineconfiguration/cluster");
    assert_eq!(settings["spec"]["operatorLogLevel"], "Normal");
    let build = get(control_plane, "machineosconfig/layered");
    assert_eq!(build["spec"]["containerFile"][0]["containerfileArch"], "NoArch");
    // The controller fills in a pool's defaults when it reads it, so that the stored spec stays as the user wrote it.
    let pool = get(control_plane, "mcp/infra");
    assert_eq!(pool["spec"].as_object().map(serde_json::Map::len), Some(4));
}

fn only_what_the_schema_names_is_kept(control_plane: &ControlPlane) {
    let patch = |object: &str, patch: &str| {
        control_plane.kubectl(&["patch", object, "--type=merge", "-p", patch]);
        get(control_plane, object)
    };
    let pool = patch("mcp/infra", r#"{"spec":{"madeUp":true}}"#);
    assert_eq!(pool["spec"].get("madeUp"), None);
    let config = patch("mc/99-worker-chrony", r#"{"spec":{"config":{"madeUp":{"deep":[1]}}}}"#);
    assert_eq!(config["spec"]["config"]["madeUp"]["deep"][0], 1);
}

fn older_spellings_are_kept_for_translation(control_plane: &ControlPlane) {
    apply(
        control_plane,
        "{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfigPool, metadata: {name: old}, \
         spec: {machineSelector: {matchLabels: {a: b}}}}",
    );
    let mut pool = get(control_plane, "mcp/old");
    assert_eq!(api::translate(&mut pool).len(), 1);
    assert_eq!(pool["spec"]["nodeSelector"]["matchLabels"]["a"], "b");
    apply(
        control_plane,
        "{apiVersion: machine.openshift.io/v1beta1, kind: Machine, metadata: {name: old, namespace: default}, \
         spec: {providerConfig: {value: {size: small}}}}",
    );
    let mut machine = get(control_plane, "machine.machine.openshift.io/old");
    assert_eq!(api::translate(&mut machine).len(), 1);
    assert_eq!(machine["spec"]["providerSpec"]["value"]["size"], "small");
}

#[track_caller]
fn get(control_plane: &ControlPlane, object: &str) -> Value {
    serde_json::from_str(&control_plane.kubectl(&["get", object, "-o", "json"])).expect("kubectl prints JSON")
}

#[test]
fn every_kind_has_a_sample_and_its_columns_are_checked() {
    let names: Vec<_> = api::crds().iter().filter_map(|definition| definition.metadata.name.clone()).collect();
    let columns: BTreeMap<_, _> = COLUMNS.iter().copied().collect();
    for definition in api::crds() {
        let spec = &definition.spec;
        let header = format!("apiVersion: {}/{}\nkind: {}\n", spec.group, spec.versions[0].name, spec.names.kind);
        assert!(SAMPLES.contains(&header), "no sample of {} in {}", spec.names.kind, spec.group);
    }
    assert_eq!(columns.len(), names.len());
    assert!(names.iter().all(|name| columns.contains_key(name.as_str())), "{names:?}");
}
