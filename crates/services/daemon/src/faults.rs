//! A way to die at a chosen step, once, for the tests of recovery. Release builds have none of it.

/// Names the step before which the process kills itself, as `kill -9` would. It is removed first, so that the next life goes on.
#[cfg(debug_assertions)]
const PLACE: &str = "/run/machinistd-die-at-step";

#[cfg(debug_assertions)]
pub(crate) fn at_step(step: usize) {
    let Ok(chosen) = std::fs::read_to_string(PLACE) else { return };
    if chosen.trim().parse() == Ok(step) {
        let _ = std::fs::remove_file(PLACE);
        let _ = std::process::Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
    }
}

#[cfg(not(debug_assertions))]
pub(crate) fn at_step(_step: usize) {}
