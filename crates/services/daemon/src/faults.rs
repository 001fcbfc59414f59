//! Ways to die or to stand still at a chosen point of an update, for the tests of recovery. Release builds have none of it.
//!
//! A line of the file at [`PLACE`] names a point: `on 3` is before the fourth step of an update, `back 0` before the first
//! step of the way back, `before applied` and `after applied` are around a phase of the journal. The process kills itself
//! there, as `kill -9` would; after the word `hold` it waits to be killed. A line is removed before it takes effect, so that
//! the next life goes on.

/// Which way the steps lead.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    On,
    /// Originals that must be kept before the way back.
    Keeping,
    Back,
}

#[cfg(debug_assertions)]
mod points {
    use super::Way;
    use crate::journal::Phase;

    /// It outlives reboots.
    const PLACE: &str = "/var/lib/machinistd-faults";
    /// Tells that the process stands still.
    const HELD: &str = "/var/lib/machinistd-held";

    pub(crate) fn at_step(way: Way, step: usize) {
        reach(&format!("{way:?} {step}").to_lowercase());
    }

    pub(crate) fn before_phase(phase: &Phase) {
        reach(&format!("before {}", phase.word()));
    }

    pub(crate) fn after_phase(phase: &Phase) {
        reach(&format!("after {}", phase.word()));
    }

    fn reach(point: &str) {
        let Ok(chosen) = std::fs::read_to_string(PLACE) else { return };
        let is_here = |line: &&str| line.strip_prefix("hold ").unwrap_or(line) == point;
        let Some(line) = chosen.lines().find(is_here) else { return };
        let rest: Vec<&str> = chosen.lines().filter(|other| *other != line).collect();
        if std::fs::write(PLACE, rest.join("\n")).is_err() {
            return;
        }
        if line.starts_with("hold ") {
            let _ = std::fs::write(HELD, point);
            loop {
                std::thread::park();
            }
        }
        let _ = std::process::Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
    }
}

#[cfg(not(debug_assertions))]
mod points {
    use super::Way;
    use crate::journal::Phase;

    pub(crate) fn at_step(_way: Way, _step: usize) {}
    pub(crate) fn before_phase(_phase: &Phase) {}
    pub(crate) fn after_phase(_phase: &Phase) {}
}

pub(crate) use points::{after_phase, at_step, before_phase};
