//! The conformance suite of the provider port on a real hypervisor with a real network.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use libvirt::{Acceleration, Libvirt, Settings};
use machine::provider::conformance::Suite;
use machine::provider::{SecretData, Secrets, Surroundings};
use serde_json::{Value, json};

use crate::host::{assert_empty, virsh};

/// An Ignition config that changes nothing: these machines exist for seconds only.
const USER_DATA: &str = r#"{"ignition":{"version":"3.4.0"}}"#;

/// Runs the suite with this spec. It blocks and uses its own runtime.
pub(crate) fn keep(spec: Value) -> Result<()> {
    let since = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let settings = Settings { acceleration: Acceleration::Emulated, ..Settings::default() };
    let mut broken = spec.clone();
    broken["domainMemory"] = json!(0);
    let user_data = BTreeMap::from([("userData".to_owned(), USER_DATA.as_bytes().to_vec())]);
    let suite = Suite {
        make: &|| Box::new(Libvirt::new("virsh".as_ref(), settings.clone())),
        spec,
        broken: Some(broken),
        secrets: Secrets { credentials: None, user_data: Some(SecretData(user_data)) },
        surroundings: Surroundings { cluster: "promises".to_owned(), ..Surroundings::default() },
        drive: &|future| runtime.block_on(future),
        pause: &|| std::thread::sleep(Duration::from_millis(100)),
        run_id: "promises".to_owned(),
        now: jiff::Timestamp::now(),
    };
    suite.run().map_err(|why| anyhow!(why))?;
    assert_empty()?;
    let version = virsh(&["version"])?;
    let version = version.lines().last().context("a hypervisor has a version")?;
    ensure!(version.contains("QEMU"), "this is no real hypervisor: {version}");
    println!("promises: the port's suite passed in {:.0?} on {}", since.elapsed(), version.trim());
    Ok(())
}
