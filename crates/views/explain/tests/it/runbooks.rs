//! `why` on each state that the runbooks lead to: the sentence, and the complete command that moves it.

use expect_test::expect;

use super::*;
use crate::why::said;

/// What a runbook asks about.
enum Subject {
    Pool,
    Node,
}

/// One state of a runbook.
struct Case {
    runbook: &'static str,
    world: World,
    subject: Subject,
    expected: expect_test::Expect,
}

const REASON: &str = "machineconfiguration.openshift.io/reason";
const HOST: &str = "kernel arguments cannot be changed on a host with neither bootc nor rpm-ostree";

/// A pool that selects fragments by role, among them one that came since the last config that worked.
fn changed() -> World {
    let source = |names: &[&str]| json!(names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>());
    let mut world = World::new().pool(|pool| {
        pool["spec"]["machineConfigSelector"] = json!({"matchExpressions": [
            {"key": "machineconfiguration.openshift.io/role", "operator": "In", "values": ["worker", "infra"]},
        ]});
        pool["spec"]["configuration"]["source"] = source(&["00-worker", "60-args"]);
        pool["status"]["configuration"]["source"] = source(&["00-worker"]);
    });
    world.fragment("60-args");
    world
}

impl World {
    fn fragment(&mut self, name: &str) {
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "spec": {},
            "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": "worker"}},
        });
        let Reading::Known { value, .. } = &mut self.0.configs else { panic!("configs are known") };
        value.push(serde_json::from_value(config).unwrap());
    }

    fn without(mut self, config: &str) -> Self {
        let Reading::Known { value, .. } = &mut self.0.configs else { panic!("configs are known") };
        value.retain(|it| it.metadata.name.as_deref() != Some(config));
        self
    }

    fn archive(mut self, config: &str) -> Self {
        let archive = json!({"apiVersion": "machinist.dev/v1alpha1", "kind": "RenderedProvenance", "metadata": {"name": config},
            "spec": {"pool": "worker", "archive": {"encoding": "gzip", "data": ""}}});
        self.0.provenances.push(serde_json::from_value(archive).unwrap());
        self
    }

    fn condition(self, type_: &str, message: &str) -> Self {
        self.pool(|pool| {
            pool["status"]["conditions"] = json!([{"type": type_, "status": "True", "message": message,
            "lastTransitionTime": ago(3)}])
        })
    }
}

fn refused(names: &str) -> String {
    format!("cannot apply {names}: {HOST}")
}

#[test]
fn every_state_of_a_runbook_is_told_with_the_command_that_moves_it() {
    for Case { runbook, world, subject, expected } in cases() {
        let it = match subject {
            Subject::Pool => explain::pool(&world.snapshot(), "worker"),
            Subject::Node => explain::node(&world.snapshot(), "a"),
        };
        let said = said(&it.unwrap_or_else(|| panic!("{runbook}: nothing is said")));
        for word in [" N\n", "=N\n", " A ", "PATH", "NAME", "POOL"] {
            assert!(!said.contains(word), "{runbook}: a placeholder stands where a name is known: {said}");
        }
        expected.assert_eq(&format!("{runbook}\n{said}"));
    }
}

fn cases() -> Vec<Case> {
    let case = |runbook, subject, world, expected| Case { runbook, world, subject, expected };
    let broken = "MachineConfig 61-broken: kernelType fast is not known";
    let reboots = ("machineconfiguration.openshift.io/post-config-action", "Rebooting");
    let lost = |reason: &[(&str, &str)]| changed().without("rendered-worker-b").node("a", "a", "b", "Degraded", reason);
    let not_found = (REASON, "machineconfig.machineconfiguration.openshift.io \"rendered-worker-b\" not found");
    let cannot = refused("rendered-worker-b");
    let reverted = [(REASON, "the kubelet is not healthy; went back"), ("machinist.dev/reverted", "rendered-worker-b")];
    vec![
        case(
            "R28 a node whose host cannot take what others can",
            Subject::Node,
            unfit(),
            expect![[r#"
            R28 a node whose host cannot take what others can
            Blocked: it runs what it ran before, and shall get rendered-worker-b in its turn
            waits for a config that this host can take: kernel arguments cannot be changed on a host with neither bootc nor rpm-ostree
            take away what came since the last config that worked: kubectl delete mc 60-args
            go back to the last config that worked: machinist rollback worker
            see what it is made from: kubectl get mc -l 'machineconfiguration.openshift.io/role in (worker,infra)'
        "#]],
        ),
        case(
            "R28 a pool in which one host cannot take what others can",
            Subject::Pool,
            unfit(),
            expect![[r#"
            R28 a pool in which one host cannot take what others can
            Blocked: 1 of 2 nodes have rendered-worker-b
            waits for node a: a config that this host can take: kernel arguments cannot be changed on a host with neither bootc nor rpm-ostree
            see why a does not move: machinist why node a
        "#]],
        ),
        case(
            "R28 a change that no host can take",
            Subject::Pool,
            nobody_can(),
            expect![[r#"
            R28 a change that no host can take
            Blocked: 0 of 1 nodes have rendered-worker-b
            waits for no node of the pool can take MachineConfig rendered-worker-b, and none is asked to: kernel arguments cannot be changed on a host with neither bootc nor rpm-ostree
            take away what came since the last config that worked: kubectl delete mc 60-args
            go back to the last config that worked: machinist rollback worker
            see what it is made from: kubectl get mc -l 'machineconfiguration.openshift.io/role in (worker,infra)'
        "#]],
        ),
        case(
            "R28 a node of a pool in which no host can take it",
            Subject::Node,
            nobody_can(),
            expect![[r#"
            R28 a node of a pool in which no host can take it
            Blocked: it runs what it ran before, and shall get rendered-worker-b in its turn
            waits for no node of the pool can take MachineConfig rendered-worker-b, and none is asked to: kernel arguments cannot be changed on a host with neither bootc nor rpm-ostree
            take away what came since the last config that worked: kubectl delete mc 60-args
            go back to the last config that worked: machinist rollback worker
            see what it is made from: kubectl get mc -l 'machineconfiguration.openshift.io/role in (worker,infra)'
        "#]],
        ),
        case(
            "R1 a pool that cannot be rendered",
            Subject::Pool,
            unrendered(broken),
            expect![[r#"
                R1 a pool that cannot be rendered
                Degraded for 3m: its fragments cannot be merged, so it keeps the last config that could
                waits for MachineConfig 61-broken: kernelType fast is not known
                take away what came since the last config that worked: kubectl delete mc 61-broken
                see what it is made from: kubectl get mc -l 'machineconfiguration.openshift.io/role in (worker,infra)'
            "#]],
        ),
        case(
            "R3 a node that reboots",
            Subject::Node,
            changed().node("a", "a", "b", "Working", &[reboots]),
            expect![[r#"
                R3 a node that reboots
                Updating: it reboots into rendered-worker-b
                waits for the machine to come back
                see what it last said: kubectl describe node a
            "#]],
        ),
        case(
            "R14 a limit that is no number",
            Subject::Pool,
            misconfigured(),
            expect![[r#"
                R14 a limit that is no number
                Blocked: 0 of 1 nodes have rendered-worker-b
                waits for spec.maxUnavailable of MachineConfigPool worker cannot be used: "some": set a number of nodes such as 1, or a percentage such as 10%
                mend it: kubectl edit mcp worker
                see why a does not move: machinist why node a
            "#]],
        ),
        case(
            "R14 a node behind a limit that is no number",
            Subject::Node,
            misconfigured(),
            expect![[r#"
            R14 a node behind a limit that is no number
            Blocked: it runs what it ran before, and shall get rendered-worker-b in its turn
            waits for spec.maxUnavailable of MachineConfigPool worker cannot be used: "some": set a number of nodes such as 1, or a percentage such as 10%
            mend it: kubectl edit mcp worker
        "#]],
        ),
        case(
            "R14 a target that settles",
            Subject::Pool,
            settling(),
            expect![[r#"
            R14 a target that settles
            Updating: 0 of 1 nodes have rendered-worker-b
            waits for its target to stay the same for 1m30s more
            let nodes get targets at once: kubectl patch poolpolicy worker --type merge -p '{"spec":{"settle":"0s"}}'
        "#]],
        ),
        case(
            "R14 a node before a target that settles",
            Subject::Node,
            settling(),
            expect![[r#"
            R14 a node before a target that settles
            Waiting: it runs what it ran before, and shall get rendered-worker-b in its turn
            waits for the pool's target to stay the same for 1m30s more
            let nodes get targets at once: kubectl patch poolpolicy worker --type merge -p '{"spec":{"settle":"0s"}}'
        "#]],
        ),
        case(
            "R18 an older config",
            Subject::Node,
            held(),
            expect![[r#"
            R18 an older config
            Paused: a person holds it where it is: kubectl-edit set desiredConfig to rendered-worker-a at 2026-03-01T11:00:00Z
            waits for the hold to be taken off
            let it go: kubectl annotate node a machinist.dev/hold-
        "#]],
        ),
        case(
            "R18 the pool of a held node",
            Subject::Pool,
            held(),
            expect![[r#"
                R18 the pool of a held node
                Updating: 0 of 1 nodes have rendered-worker-b
                waits for a node that a person holds
                let it go: kubectl annotate node a machinist.dev/hold-
            "#]],
        ),
        case(
            "R19 a lost config with an archive",
            Subject::Node,
            lost(&[not_found]).archive("rendered-worker-b"),
            expect![[r#"
                R19 a lost config with an archive
                Degraded: machineconfig.machineconfiguration.openshift.io "rendered-worker-b" not found
                waits for MachineConfig rendered-worker-b, which does not exist
                bring the config back: machinist doctor --fix
            "#]],
        ),
        case(
            "R19 a lost config without an archive",
            Subject::Node,
            lost(&[not_found]),
            expect![[r#"
            R19 a lost config without an archive
            Degraded: machineconfig.machineconfiguration.openshift.io "rendered-worker-b" not found
            waits for MachineConfig rendered-worker-b, which does not exist
            send it to the last config that worked, where it is held: kubectl annotate node a --overwrite machineconfiguration.openshift.io/currentConfig=rendered-worker-a machineconfiguration.openshift.io/desiredConfig=rendered-worker-a
        "#]],
        ),
        case(
            "R19 a lost config, and a way back",
            Subject::Node,
            lost(&[not_found]).archive("rendered-worker-a"),
            expect![[r#"
                R19 a lost config, and a way back
                Degraded: machineconfig.machineconfiguration.openshift.io "rendered-worker-b" not found
                waits for MachineConfig rendered-worker-b, which does not exist
                go back to the last config that worked: machinist rollback worker
                send it to the last config that worked, where it is held: kubectl annotate node a --overwrite machineconfiguration.openshift.io/currentConfig=rendered-worker-a machineconfiguration.openshift.io/desiredConfig=rendered-worker-a
            "#]],
        ),
        case(
            "R19 a lost config that is not the pool's any more",
            Subject::Node,
            older_lost(),
            expect![[r#"
            R19 a lost config that is not the pool's any more
            Blocked: it shall reach rendered-worker-0, which does not exist
            waits for MachineConfig rendered-worker-0
            send it to what pool worker wants: kubectl annotate node a --overwrite machineconfiguration.openshift.io/currentConfig=rendered-worker-b machineconfiguration.openshift.io/desiredConfig=rendered-worker-b
        "#]],
        ),
        case(
            "R19 a node on its way to a lost config",
            Subject::Node,
            on_its_way_to_a_lost_one(),
            expect![[r#"
            R19 a node on its way to a lost config
            Blocked: it shall reach rendered-worker-b, which does not exist
            waits for MachineConfig rendered-worker-b
            bring the config back: machinist doctor --fix
        "#]],
        ),
        case(
            "R20 a change that this host refuses",
            Subject::Node,
            unreconcilable(&cannot),
            expect![[r#"
                R20 a change that this host refuses
                Degraded: cannot apply rendered-worker-b: kernel arguments cannot be changed on a host with neither bootc nor rpm-ostree
                waits for a config that this host can take: it refused this one before its first write
                see what changed: machinist diff rendered-worker-a rendered-worker-b
                take away what came since the last config that worked: kubectl delete mc 60-args
                go back to the last config that worked: machinist rollback worker
                see what it is made from: kubectl get mc -l 'machineconfiguration.openshift.io/role in (worker,infra)'
            "#]],
        ),
        case(
            "R20 the pool of a node that refuses",
            Subject::Pool,
            unreconcilable(&cannot),
            expect![[r#"
            R20 the pool of a node that refuses
            Degraded: 0 of 1 nodes have rendered-worker-b
            waits for node a: a config that this host can take: it refused this one before its first write
            see why a does not move: machinist why node a
        "#]],
        ),
        case(
            "R20 a node that tried and went back",
            Subject::Node,
            changed().node("a", "a", "b", "Degraded", &reverted),
            expect![[r#"
                R20 a node that tried and went back
                Degraded: the kubelet is not healthy; went back
                waits for another config: it tried this one, failed and went back
                go back to the last config that worked: machinist rollback worker
                let it be tried once more: kubectl annotate mcp worker machinist.dev/approve=rendered-worker-b --overwrite
            "#]],
        ),
        case(
            "R20 a change that fails",
            Subject::Node,
            changed().node("a", "a", "b", "Degraded", &[(REASON, "no space")]),
            expect![[r#"
                R20 a change that fails
                Degraded: no space
                waits for a config that works here
                see what changed: machinist diff rendered-worker-a rendered-worker-b
                go back to the last config that worked: machinist rollback worker
                try again although a check refuses it: kubectl annotate node a machinist.dev/force=rendered-worker-b --overwrite
            "#]],
        ),
        case(
            "R20 a first config that fails",
            Subject::Node,
            first_config_fails(),
            expect![[r#"
                R20 a first config that fails
                Degraded: no space
                waits for a config that works here
                try again although a check refuses it: kubectl annotate node a machinist.dev/force=rendered-worker-b --overwrite
            "#]],
        ),
    ]
}

fn unrendered(why: &str) -> World {
    let mut world = changed().condition("RenderDegraded", why);
    world.fragment("61-broken");
    world
}

fn unfit() -> World {
    let mut world = changed().standstill(Standstill::Settled).node("a", "a", "a", "Done", &[]);
    world.0.unfit.insert("a".to_owned(), HOST.to_owned());
    world.node("b", "b", "b", "Done", &[])
}

fn nobody_can() -> World {
    let message = format!("no node of the pool can take MachineConfig rendered-worker-b, and none is asked to: {HOST}");
    changed().node("a", "a", "a", "Done", &[]).pool(|pool| {
        pool["status"]["conditions"] =
            json!([{"type": "Degraded", "status": "True", "reason": "RefusedByHosts", "message": message}]);
    })
}

fn misconfigured() -> World {
    let problem = "spec.maxUnavailable of MachineConfigPool worker cannot be used: \"some\": set a number of nodes such as 1, or a percentage such as 10%";
    changed().standstill(Standstill::Misconfigured(problem.to_owned())).node("a", "a", "a", "Done", &[])
}

fn settling() -> World {
    let left = jiff::SignedDuration::from_secs(90);
    changed().standstill(Standstill::Settling { left }).node("a", "a", "a", "Done", &[])
}

fn held() -> World {
    let hold = ("machinist.dev/hold", "kubectl-edit set desiredConfig to rendered-worker-a at 2026-03-01T11:00:00Z");
    changed().standstill(Standstill::Held { nodes: 1 }).node("a", "a", "a", "Done", &[hold])
}

fn older_lost() -> World {
    let world = World::new().node("a", "a", "0", "Working", &[]);
    world.ledger(&json!({"claims": [{"node": "a", "config": "rendered-worker-0", "since": ago(1)}]}))
}

fn on_its_way_to_a_lost_one() -> World {
    changed().without("rendered-worker-b").archive("rendered-worker-b").node("a", "a", "b", "Working", &[])
}

fn unreconcilable(reason: &str) -> World {
    changed().node("a", "a", "b", "Unreconcilable", &[(REASON, reason)])
}

fn first_config_fails() -> World {
    let annotations = json!({
        "machineconfiguration.openshift.io/desiredConfig": "rendered-worker-b",
        "machineconfiguration.openshift.io/state": "Degraded", REASON: "no space",
    });
    World::new().blank("a", annotations).pool(|pool| pool["status"] = json!({}))
}
