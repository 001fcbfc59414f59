//! The power goes, or a disk fails, at every single point of an update.

use api::machineconfiguration::MachineConfig;
use change::host::Host;
use daemon::engine::{self, Engine, Error, Prepared, Standing};
use daemon::journal::PostAction;
use daemon::verify;
use host::memory::{Memory, Trouble};
use serde_json::json;

use crate::configs::{config, furnish, text};

const UNIT: &str = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";

fn old() -> MachineConfig {
    let units = json!([
        {"name": "gone.service", "enabled": true, "contents": UNIT},
        {"name": "kept.service", "enabled": true, "contents": UNIT},
    ]);
    let users = json!([{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 OLD"]}]);
    config("old", &[("/etc/same", "same\n"), ("/etc/changed", "old\n"), ("/etc/gone", "old\n")], &units, &users)
}

fn new() -> MachineConfig {
    let units = json!([
        {"name": "kept.service", "enabled": true, "contents": UNIT, "dropins": [{"name": "a.conf", "contents": "[Service]\nNice=1\n"}]},
        {"name": "shipped.service", "enabled": false},
        {"name": "masked.service", "mask": true},
    ]);
    let users = json!([{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 NEW"], "passwordHash": "$6$new"}]);
    let files = [
        ("/etc/same", "same\n"),
        ("/etc/changed", "new\n"),
        ("/etc/chrony.conf", "new\n"),
        ("/etc/deep/er/new", "new\n"),
    ];
    config("new", &files, &units, &users)
}

fn prepared(host: &dyn Host, from: &MachineConfig, to: &MachineConfig) -> Prepared {
    let steps = Engine::new(host).prepare(from, to).unwrap();
    let actions = vec![PostAction::DaemonReload];
    Prepared { from: from.clone(), to: to.clone(), steps, actions, trial: None }
}

/// What the daemon's loop does with an engine, without a cluster.
fn drive(host: &dyn Host) -> Result<(), Error> {
    let engine = Engine::new(host);
    for _ in 0..10 {
        match engine.recover()? {
            Standing::Settled | Standing::WentBack { .. } => return Ok(()),
            Standing::Applied => match engine.act() {
                Ok(()) => engine.finish()?,
                Err(Error::Undone { .. }) => {}
                Err(error) => return Err(error),
            },
            other => panic!("unexpected {other:?}"),
        }
    }
    panic!("it never settles");
}

fn update(host: &dyn Host, from: &MachineConfig, to: &MachineConfig) -> Result<(), Error> {
    match Engine::new(host).execute(&prepared(host, from, to)) {
        Ok(()) | Err(Error::Undone { .. }) => drive(host),
        Err(error) => Err(error),
    }
}

/// A host that runs the old config.
fn settled() -> Memory {
    let host = Memory::new();
    furnish(&host);
    update(&host, &MachineConfig::default(), &old()).unwrap();
    host
}

/// The host is at the old or the new config, with nothing of the other and nothing half done. Says which.
#[track_caller]
fn assert_whole(host: &Memory, label: &str) -> String {
    let engine = Engine::new(host);
    let current = engine.store().current().unwrap().unwrap();
    let name = engine::name(&current);
    let found = verify::verify(host, &engine::read(&current).unwrap());
    assert!(found.is_empty(), "{label}: at {name}, but {found:?}");
    let (chrony, gone) = (text(host, "/etc/chrony.conf").unwrap(), text(host, "/etc/gone"));
    let enablement = host.services().enablement("shipped.service").unwrap();
    match name.as_str() {
        "old" => {
            assert_eq!((chrony.as_str(), gone.as_deref()), ("distribution\n", Some("old\n")), "{label}");
            assert_eq!(text(host, "/etc/deep/er/new"), None, "{label}");
            assert_eq!(enablement, "enabled", "{label}");
        }
        "new" => {
            assert_eq!((chrony.as_str(), gone.as_deref()), ("new\n", None), "{label}");
            assert_eq!(host.services().enablement("gone.service").unwrap(), "not-found", "{label}");
        }
        other => panic!("{label}: at {other}"),
    }
    let journal = host.listing().into_keys().filter(|path| path.starts_with("/etc/machine-config-daemon/journal/"));
    let journal: Vec<String> = journal.filter(|path| !path.ends_with(".machinist")).collect();
    assert!(journal.is_empty(), "{label}: {journal:?}");
    name
}

/// A small generator, so that each case can be run again by its number.
fn coin(seed: u64) -> impl FnMut() -> bool {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        match seed {
            0 => false,
            1 => true,
            _ => state & 1 == 0,
        }
    }
}

fn points_of_an_update() -> u64 {
    let host = settled();
    host.take_points();
    update(&host, &old(), &new()).unwrap();
    assert_eq!(assert_whole(&host, "without trouble"), "new");
    host.take_points()
}

#[test]
fn a_power_cut_at_any_write_or_flush_ends_in_the_old_or_the_new_config() {
    let points = points_of_an_update();
    assert!(points > 60, "the model has become coarse: {points} points");
    let (mut olds, mut news) = (0, 0);
    for at in 0..points {
        for seed in 0..4 {
            let label = format!("cut at {at} of {points}, seed {seed}");
            let host = settled();
            host.trouble(Trouble::PowerCut { at });
            let error = update(&host, &old(), &new()).unwrap_err();
            assert!(error.is_power_cut(), "{label}: {error}");
            let host = host.after_power_cut(coin(seed));
            drive(&host).unwrap_or_else(|error| panic!("{label}: {error}"));
            match assert_whole(&host, &label).as_str() {
                "old" => olds += 1,
                _ => news += 1,
            }
            // From wherever it ended it can go on, and what the distribution shipped is still there.
            let current = Engine::new(&host).store().current().unwrap().unwrap();
            update(&host, &current, &config("bare", &[], &json!([]), &json!([]))).unwrap();
            assert_eq!(text(&host, "/etc/chrony.conf").as_deref(), Some("distribution\n"), "{label}");
            assert_eq!(host.services().enablement("shipped.service").unwrap(), "enabled", "{label}");
        }
    }
    assert!(olds > 0 && news > 0, "{olds} old, {news} new");
}

#[test]
fn a_second_power_cut_while_recovering_changes_nothing_about_that() {
    let points = points_of_an_update();
    for at in (0..points).step_by(7) {
        for second in (0..points).step_by(5) {
            let label = format!("cut at {at}, then at {second}");
            let host = settled();
            host.trouble(Trouble::PowerCut { at });
            update(&host, &old(), &new()).unwrap_err();
            let host = host.after_power_cut(coin(at + 2));
            host.trouble(Trouble::PowerCut { at: second });
            let host = match drive(&host) {
                Ok(()) => host,
                Err(error) => {
                    assert!(error.is_power_cut(), "{label}: {error}");
                    let host = host.after_power_cut(coin(second + 2));
                    drive(&host).unwrap_or_else(|error| panic!("{label}: {error}"));
                    host
                }
            };
            assert_whole(&host, &label);
        }
    }
}

#[test]
fn a_disk_that_fails_once_at_any_point_leaves_the_old_config_or_finishes_the_new_one() {
    for at in 0..points_of_an_update() {
        let label = format!("failure at {at}");
        let host = settled();
        host.trouble(Trouble::Failure { at });
        if update(&host, &old(), &new()).is_err() {
            // The daemon tries again, as it does after any failure.
            drive(&host).unwrap_or_else(|error| panic!("{label}: {error}"));
        }
        assert_whole(&host, &label);
    }
}

#[test]
fn a_power_cut_while_going_back_still_goes_back() {
    let host = settled();
    host.take_points();
    let back = |host: &Memory| -> Result<(), Error> {
        Engine::new(host).execute(&prepared(host, &old(), &new()))?;
        match Engine::new(host).go_back("it does not work") {
            Err(Error::Undone { .. }) => drive(host),
            other => other,
        }
    };
    back(&host).unwrap();
    assert_eq!(assert_whole(&host, "going back"), "old");
    let points = host.take_points();
    for at in 0..points {
        for seed in 0..3 {
            let label = format!("cut at {at} of {points}, seed {seed}");
            let host = settled();
            host.trouble(Trouble::PowerCut { at });
            back(&host).unwrap_err();
            let host = host.after_power_cut(coin(seed));
            drive(&host).unwrap_or_else(|error| panic!("{label}: {error}"));
            assert_whole(&host, &label);
        }
    }
}
