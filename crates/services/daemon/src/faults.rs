//! A way to die at a chosen step, for the tests of recovery. Release builds have none of it.

/// Names the step before which the process kills itself, as `kill -9` would.
#[cfg(debug_assertions)]
const VARIABLE: &str = "MACHINISTD_DIE_AT_STEP";

#[cfg(debug_assertions)]
pub(crate) fn at_step(step: usize) {
    if std::env::var(VARIABLE).is_ok_and(|chosen| chosen.parse() == Ok(step)) {
        let _ = std::process::Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
    }
}

#[cfg(not(debug_assertions))]
pub(crate) fn at_step(_step: usize) {}
