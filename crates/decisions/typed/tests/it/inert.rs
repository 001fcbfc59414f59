//! Nothing is accepted blind: every kind that is installed has an effect, is written by us, or says that it does nothing.

use std::collections::{BTreeMap, BTreeSet};

use api::annotations;
use api::machineconfiguration::{MachineOSBuild, MachineOSConfig};
use api::operator::MachineConfiguration;
use expect_test::{Expect, expect};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use typed::inert::{Bare, Inert};

use crate::effects::Proof;

/// What tells a user about an object of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tells {
    /// It changes nodes, machines or other objects, and conditions, events or errors of admission tell what is wrong.
    Effect(Proof),
    /// We write it; users only read it.
    Record,
    /// It does nothing, wholly or in part, and says so: see [`typed::inert`].
    Inert,
}

use Proof::{Generated, Test};
use Tells::{Effect, Inert as Nothing, Record};

/// A new kind is added here once it has an effect, with what shows it, or says that it has none.
const KINDS: &[(&str, &str, Tells)] = &[
    (
        "machineconfiguration.openshift.io",
        "MachineConfig",
        Effect(Test("e2e/tests/it/walk.rs", "a_machine_config_reaches_each_node_of_its_pool_one_at_a_time")),
    ),
    (
        "machineconfiguration.openshift.io",
        "MachineConfigPool",
        Effect(Test("e2e/tests/it/controllers/rolling_out.rs", "a_percentage_is_a_budget")),
    ),
    ("machineconfiguration.openshift.io", "KubeletConfig", Effect(Generated)),
    ("machineconfiguration.openshift.io", "ContainerRuntimeConfig", Effect(Generated)),
    ("machineconfiguration.openshift.io", "ControllerConfig", Effect(Generated)),
    ("machineconfiguration.openshift.io", "MachineConfigNode", Record),
    (
        "machineconfiguration.openshift.io",
        "PinnedImageSet",
        Effect(Test(
            "crates/services/daemon/tests/it/asked.rs",
            "images_of_a_set_are_pulled_pinned_reported_and_let_go",
        )),
    ),
    ("machineconfiguration.openshift.io", "MachineOSConfig", Nothing),
    ("machineconfiguration.openshift.io", "MachineOSBuild", Nothing),
    ("operator.openshift.io", "MachineConfiguration", Nothing),
    ("operator.openshift.io", "ImageContentSourcePolicy", Effect(Generated)),
    ("config.openshift.io", "ClusterOperator", Record),
    ("config.openshift.io", "Image", Effect(Generated)),
    ("config.openshift.io", "ImageDigestMirrorSet", Effect(Generated)),
    ("config.openshift.io", "ImageTagMirrorSet", Effect(Generated)),
    ("config.openshift.io", "ClusterImagePolicy", Effect(Generated)),
    ("config.openshift.io", "ImagePolicy", Effect(Generated)),
    ("config.openshift.io", "Node", Effect(Generated)),
    ("config.openshift.io", "FeatureGate", Effect(Generated)),
    ("config.openshift.io", "APIServer", Effect(Generated)),
    (
        "config.openshift.io",
        "Infrastructure",
        Effect(Test("crates/providers/aws/src/settings.rs", "settings_are_read_from_the_infrastructure_object")),
    ),
    (
        "config.openshift.io",
        "Proxy",
        Effect(Test(
            "crates/decisions/typed/tests/it/templates_faults.rs",
            "only_root_reads_the_credentials_of_a_proxy",
        )),
    ),
    (
        "config.openshift.io",
        "Scheduler",
        Effect(Test("e2e/tests/it/controllers/marking.rs", "a_node_carries_the_labels_of_where_it_belongs")),
    ),
    (
        "machine.openshift.io",
        "Machine",
        Effect(Test(
            "crates/decisions/machine/tests/it/convergence.rs",
            "a_deleted_machine_is_replaced_and_leaves_nothing_behind",
        )),
    ),
    (
        "machine.openshift.io",
        "MachineSet",
        Effect(Test("crates/decisions/machine/tests/it/convergence.rs", "a_set_grows_and_shrinks")),
    ),
    (
        "machine.openshift.io",
        "MachineHealthCheck",
        Effect(Test("crates/services/machines/tests/it/health.rs", "a_machine_whose_node_stays_unready_is_replaced")),
    ),
    (
        "machine.openshift.io",
        "MachineDeployment",
        Effect(Test(
            "crates/decisions/machine/tests/it/convergence.rs",
            "a_deployment_rolls_within_its_bounds_and_ends",
        )),
    ),
    (
        "machine.openshift.io",
        "ControlPlaneMachineSet",
        Effect(Test(
            "crates/decisions/machine/tests/it/control_plane_set.rs",
            "outdated_machines_are_replaced_one_at_a_time_from_the_lowest_index",
        )),
    ),
    ("cluster.k8s.io", "Machine", Nothing),
    ("cluster.k8s.io", "MachineSet", Nothing),
    ("cluster.k8s.io", "MachineDeployment", Nothing),
    ("cluster.k8s.io", "Cluster", Nothing),
    (
        "healthchecking.openshift.io",
        "MachineHealthCheck",
        Effect(Test("crates/services/machines/tests/it/health.rs", "a_check_of_2019_goes_by_its_config_map")),
    ),
    (
        "machinist.dev",
        "BootstrapToken",
        Effect(Test("crates/services/server/tests/it/tokens.rs", "a_token_opens_one_pool")),
    ),
    ("machinist.dev", "ClusterSettings", Effect(Generated)),
    ("machinist.dev", "KeptConfig", Record),
    ("machinist.dev", "NodeSurvey", Record),
    ("machinist.dev", "PoolLedger", Record),
    (
        "machinist.dev",
        "PoolPolicy",
        Effect(Test(
            "crates/services/daemon/tests/it/honest.rs",
            "drift_of_the_operating_system_is_not_called_repaired",
        )),
    ),
    ("machinist.dev", "RenderedProvenance", Record),
];

/// The rights of every workload, as they are installed.
const ACCESS: &str = include_str!("../../../../../manifests/install/access.yaml");

#[test]
fn every_installed_kind_has_an_effect_is_a_record_or_says_that_it_does_nothing() {
    let rules = rules();
    let known: BTreeMap<_, _> = KINDS.iter().map(|(group, kind, tells)| ((*group, *kind), *tells)).collect();
    let definitions = api::crds();
    for definition in &definitions {
        let (group, names) = (definition.spec.group.as_str(), &definition.spec.names);
        let kind = names.kind.as_str();
        let Some(tells) = known.get(&(group, kind)) else {
            panic!("{kind}.{group} is installed, but nothing says what tells users about it: see KINDS");
        };
        let may = |verbs: &[&str]| verbs.iter().any(|verb| rules.contains(&(group, names.plural.as_str(), verb)));
        match tells {
            Effect(proof) => {
                assert!(may(&["get", "list", "watch"]), "no workload reads {kind}.{group}, so it has no effect");
                proof.check(kind);
            }
            Record => assert!(may(&["create", "patch", "update"]), "no workload writes {kind}.{group}"),
            Nothing => assert!(says_so(kind), "{kind}.{group} does nothing and does not say so"),
        }
    }
    assert_eq!(known.len(), definitions.len(), "a kind of KINDS is not installed any more");
}

/// Group, resource and verb of every right.
fn rules() -> BTreeSet<(&'static str, &'static str, &'static str)> {
    let mut rights = BTreeSet::new();
    for rule in ACCESS.split("- apiGroups:").skip(1) {
        let rule = rule.split("\n---").next().unwrap_or_default();
        let list = |from: &'static str| {
            let lines = from.lines().skip(1).take_while(|line| line.starts_with("  - "));
            lines.map(|line| line.trim_start_matches("  - ").trim_matches(['"', '\''])).collect::<Vec<_>>()
        };
        let groups = list(rule);
        let resources = rule.split_once("  resources:").map(|(_, rest)| list(rest)).unwrap_or_default();
        let verbs = rule.split_once("  verbs:").map(|(_, rest)| list(rest)).unwrap_or_default();
        for group in &groups {
            for resource in &resources {
                rights.extend(verbs.iter().map(|verb| (*group, *resource, *verb)));
            }
        }
    }
    rights
}

/// Whether an object of this kind is told that it does nothing.
fn says_so(kind: &str) -> bool {
    let mut inert = Inert::default();
    match kind {
        "MachineOSConfig" => inert.os_configs.push(os_config()),
        "MachineOSBuild" => inert.os_builds.push(os_build(json!([]))),
        "MachineConfiguration" => inert.configuration = Some(configuration(json!({"managedBootImages": {}}))),
        bare => {
            let known = typed::inert::BARE.into_iter().find(|(name, _)| *name == bare);
            inert.bare.extend(known.map(|(kind, _)| Bare::new(kind, named("a"))));
        }
    }
    inert.plan(Timestamp::UNIX_EPOCH).updates.len() == 1
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

fn os_config() -> MachineOSConfig {
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSConfig", "metadata": {"name": "worker"},
        "spec": {
            "machineConfigPool": {"name": "worker"}, "imageBuilder": {"imageBuilderType": "Job"},
            "renderedImagePushSecret": {"name": "push"}, "renderedImagePushSpec": "registry.local/os:latest",
        },
    });
    serde_json::from_value(config).unwrap()
}

fn os_build(conditions: Value) -> MachineOSBuild {
    let build = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSBuild", "metadata": {"name": "worker-1"},
        "spec": {
            "machineConfig": {"name": "rendered-worker-1"}, "machineOSConfig": {"name": "worker"},
            "renderedImagePushSpec": "registry.local/os:latest",
        },
        "status": {"conditions": conditions},
    });
    serde_json::from_value(build).unwrap()
}

fn configuration(spec: Value) -> MachineConfiguration {
    let configuration = json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration", "metadata": {"name": "cluster"},
        "spec": spec,
    });
    serde_json::from_value(configuration).unwrap()
}

/// The messages of the conditions and annotations that a plan sets.
#[track_caller]
fn check(inert: &Inert, expected: Expect) {
    let plan = inert.plan(Timestamp::UNIX_EPOCH);
    let mut said = String::new();
    for update in plan.updates {
        said += &format!("{} {}:", update.object.kind, update.object.name);
        let conditions = update.status.and_then(|status| status["conditions"].as_array().cloned()).unwrap_or_default();
        for one in conditions {
            let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
            said += &format!(" {}={} {}: {}", text("type"), text("status"), text("reason"), text("message"));
        }
        said += &update.annotations.into_values().collect::<String>();
        said += "\n";
    }
    for event in plan.events {
        said += &format!("event {}: {}\n", event.reason, event.message);
    }
    expected.assert_eq(&said);
}

#[test]
fn a_machine_os_config_says_that_nothing_is_built() {
    let inert = Inert { os_configs: vec![os_config()], ..Inert::default() };
    check(
        &inert,
        expect![[r#"
        MachineOSConfig worker: Effective=False NotSupported: Machinist builds no OS images; build the image elsewhere and set spec.osImageURL of a MachineConfig for pool worker
    "#]],
    );
}

#[test]
fn a_build_that_upstream_finished_is_left_alone() {
    let condition = json!([{
        "type": "Succeeded", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    let inert = Inert { os_builds: vec![os_build(condition)], ..Inert::default() };
    check(&inert, expect![""]);
}

#[test]
fn fields_of_the_machine_configuration_that_do_nothing_are_named_and_defaults_are_not() {
    let fields = json!({
        "managedBootImages": {}, "logLevel": "Debug", "managementState": "Removed", "forceRedeploymentReason": "again",
    });
    let mut inert = Inert { configuration: Some(configuration(fields)), ..Inert::default() };
    check(
        &inert,
        expect![[r#"
        MachineConfiguration cluster: Effective=False NotSupported: spec.managedBootImages does nothing: change the image in the providerSpec of each MachineSet; spec.managementState does nothing: `machinist uninstall` removes an installation, spec.paused of a pool stops its updates; spec.logLevel and spec.operatorLogLevel do nothing: each process logs as its environment variable RUST_LOG says; spec.forceRedeploymentReason does nothing: restart the workload with `kubectl rollout restart`
    "#]],
    );
    let defaults = json!({"logLevel": "Normal", "operatorLogLevel": "Normal", "managementState": "Managed"});
    inert.configuration = Some(configuration(defaults));
    check(&inert, expect![""]);
}

#[test]
fn the_condition_goes_once_the_field_is_gone_and_conditions_of_others_stay() {
    let mut object = configuration(json!({"managedBootImages": {}}));
    let told = Inert { configuration: Some(object.clone()), ..Inert::default() }.plan(Timestamp::UNIX_EPOCH);
    let mut status = told.updates[0].status.clone().unwrap();
    let theirs = json!({
        "type": "Theirs", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    status["conditions"].as_array_mut().unwrap().push(theirs);
    object.status = serde_json::from_value(status).unwrap();
    let mut inert = Inert { configuration: Some(object), ..Inert::default() };
    check(&inert, expect![""]);
    inert.configuration.as_mut().unwrap().spec.managed_boot_images = None;
    check(
        &inert,
        expect![[r#"
        MachineConfiguration cluster: Theirs=True R: 
    "#]],
    );
}

#[test]
fn an_object_that_is_not_named_cluster_says_so_once() {
    for kind in typed::inert::SINGLE {
        let mut inert = Inert { singles: vec![(kind, named("custom")), (kind, named("cluster"))], ..Inert::default() };
        let plan = inert.plan(Timestamp::UNIX_EPOCH);
        assert_eq!((plan.updates.len(), plan.events.len()), (1, 1), "{plan:?}");
        let says = format!("{kind} custom: only the {kind} named cluster has an effect; create it under that name");
        assert_eq!(plan.events[0].message, says);
        inert.singles[0].1.annotations = Some(plan.updates[0].annotations.clone());
        assert!(inert.plan(Timestamp::UNIX_EPOCH).is_empty());
    }
}

#[test]
fn an_object_without_conditions_carries_the_sentence_and_is_told_once() {
    let mut inert = Inert { bare: vec![Bare::new("Cluster", named("release"))], ..Inert::default() };
    check(
        &inert,
        expect![[r#"
        Cluster release:Machinist runs no machines of cluster.k8s.io/v1alpha1; create the object in machine.openshift.io/v1beta1, which has the same fields
        event NotSupported: Cluster release: Machinist runs no machines of cluster.k8s.io/v1alpha1; create the object in machine.openshift.io/v1beta1, which has the same fields
    "#]],
    );
    let sentence = inert.plan(Timestamp::UNIX_EPOCH).updates.remove(0).annotations[annotations::IGNORED].clone();
    inert.bare[0].told = Some(sentence);
    check(&inert, expect![""]);
}
