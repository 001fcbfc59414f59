//! Tests for every process with leader election: a leader that dies is replaced within the duration of its Lease.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::Api;
use testkit::process::Process;
use testkit::{wait_for, wait_until};

use crate::processes::listening;

/// Waits until `who` holds the Lease, and returns it.
pub(crate) async fn leads(leases: &Api<Lease>, lease: &str, who: &str) -> LeaseSpec {
    let holds = |lease: Option<&Lease>| {
        let holder = lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.as_deref());
        holder == Some(who)
    };
    let lease = wait_for(leases, lease, &format!("{who} to lead"), holds).await;
    lease.and_then(|lease| lease.spec).unwrap()
}

/// Waits until a leader that was suspended for too long has exited by itself.
pub(crate) async fn ends(mut process: Process) {
    wait_until("the deposed leader to end", || {
        let ended = (!process.is_running()).then_some(());
        async move { ended }
    })
    .await;
    assert!(process.wait().unwrap().success(), "{}", process.tail(5));
}

/// Starts two processes, kills the leader, and checks that the other one takes over in time. Returns the new leader.
pub(crate) async fn a_dead_leader_is_replaced(
    leases: &Api<Lease>,
    lease: &str,
    start: impl Fn(&str) -> Process,
) -> Process {
    let mut first = start("first");
    leads(leases, lease, "first").await;
    let second = start("second");
    let url = listening(&second).await;
    let ready = || async { reqwest::get(format!("{url}/readyz")).await.ok()?.text().await.ok() };
    let standby = wait_until("the second to be up", || async { ready().await.filter(|it| it.contains("ok")) }).await;
    assert_eq!(standby, "ok: another process leads\n", "a standby is ready, and says so");

    first.kill();
    let last = leases.get(lease).await.unwrap().spec.unwrap();
    let taken = leads(leases, lease, "second").await;
    let waited = taken.acquire_time.unwrap().0.duration_since(last.renew_time.unwrap().0);
    let lease = jiff::SignedDuration::from_secs(i64::from(last.lease_duration_seconds.unwrap()));
    // The Lease has a resolution of seconds, and this machine is busy.
    assert!(
        waited <= lease + jiff::SignedDuration::from_secs(5),
        "{waited:?} after the last sign of life, of {lease:?}"
    );
    let leading =
        wait_until("the second to lead", || async { ready().await.filter(|it| it.contains("leading")) }).await;
    assert_eq!(leading, "ok: leading\n");
    second
}
