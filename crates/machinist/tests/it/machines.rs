//! Machines as the verbs show them, on the fleet of `machinist up`.

use api::machine::{Machine, MachineSet};
use api::names::MACHINE_API_NAMESPACE;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::fleet::Fleet;

#[tokio::test]
async fn machines_are_shown_explained_exported_and_diagnosed() {
    let fleet = Fleet::start(&["--nodes", "1"]);
    fleet.updated("");
    let status = fleet.wait(&["status"], |status| status["machineSets"][0]["state"] == "Running");
    assert_eq!(status["machines"][1]["name"], "worker-1");
    assert_eq!(status["machines"][1]["machineSet"], "worker-a");
    let table = fleet.run(&["status"]).stdout;
    assert!(table.ends_with("2 of 2 machines run; 3 MachineSets\n"), "{table}");
    let why = fleet.json(&["why", "machine", "worker-1"]);
    assert_eq!(why["summary"], "it is node worker-1");
    let unknown = fleet.run(&["why", "machineset", "none"]);
    assert!(unknown.stderr.contains("there is no machineset none; there are worker-a"), "{}", unknown.stderr);

    let exported = fleet.run(&["export", "machine", "worker-1"]);
    assert!(exported.stderr.contains("MachineSet worker-a takes a copy"), "{}", exported.stderr);
    let gone = fleet.run(&["export", "machine", "none"]);
    assert!(gone.code == 1 && gone.stderr.contains("there is no Machine none in namespace openshift-machine-api"));
    let exported = fleet.run(&["export", "machine", "control-plane-1", "-o", "json"]);
    assert_eq!((exported.code, exported.stderr.as_str()), (0, ""));
    let copy: Machine = serde_json::from_str(&exported.stdout).unwrap();
    assert_eq!((&copy.spec.provider_id, &copy.status, &copy.metadata.uid), (&None, &None, &None));

    let sets: Api<MachineSet> = Api::namespaced(fleet.client().await, MACHINE_API_NAMESPACE);
    let spec = json!({"faults": {"create": "NoCapacity"}});
    let more = json!({"spec": {"replicas": 2, "template": {"spec": {"providerSpec": {"value": spec}}}}});
    sets.patch("worker-a", &PatchParams::default(), &Patch::Merge(more)).await.unwrap();
    let found = fleet.wait(&["doctor"], |doctor| doctor["findings"][0]["id"] == "machineset-starved");
    assert_eq!(found["findings"][0]["subject"], "machineset/worker-a");
    let why = fleet.wait(&["why", "machineset", "worker-a"], |why| why["state"] == "Blocked");
    assert!(why["waitingFor"][0].as_str().unwrap().contains("the provider, which answered"), "{why:#}");
    let table = fleet.run(&["status"]).stdout;
    assert!(table.contains("2 of 3 machines run; 3 MachineSets\n\nMACHINESET  STATE"), "{table}");
}
