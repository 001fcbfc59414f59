//! Many steps of one kind that do not touch each other, done at once.
//!
//! A disk makes many files durable in the time of a few, if they are asked for together. Steps can be repeated and undone in
//! any order, so it does not matter which of them a crash has left undone.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use change::host::Error;
use change::step::Step;

/// Fewer are not worth a thread.
const MANY: usize = 24;
/// More do not make a disk faster.
const THREADS: usize = 8;

/// The first step, with those after it that can be done at the same time.
pub(crate) fn alike(steps: &[Step]) -> &[Step] {
    let same = |kind: fn(&Step) -> bool| steps.iter().take_while(|step| kind(step)).count();
    let count = same(|step| matches!(step, Step::Keep { .. })).max(same(|step| matches!(step, Step::WriteFile { .. })));
    &steps[..if count >= MANY { count } else { steps.len().min(1) }]
}

/// Does `work` for each step and tells the first error. After an error no other step is begun.
pub(crate) fn each(steps: &[Step], work: impl Fn(usize, &Step) -> Result<(), Error> + Sync) -> Result<(), Error> {
    if steps.len() < MANY {
        return steps.iter().enumerate().try_for_each(|(index, step)| work(index, step));
    }
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let failure = || failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some((index, step)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    steps.get(index).map(|step| (index, step))
                } {
                    if failure().is_some() {
                        return;
                    }
                    if let Err(error) = work(index, step) {
                        failure().get_or_insert(error);
                    }
                }
            });
        }
    });
    match failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::host::{ErrorKind, HostPath};

    fn write(name: usize) -> Step {
        Step::WriteFile { path: HostPath::parse(&format!("/etc/{name}")).expect("a path") }
    }

    #[test]
    fn only_many_steps_of_one_kind_go_together() {
        let mut steps: Vec<Step> = (0..30).map(write).collect();
        steps.push(Step::DaemonReload);
        assert_eq!(alike(&steps).len(), 30);
        assert_eq!(alike(&steps[10..]).len(), 1);
        assert_eq!(alike(&steps[30..]), [Step::DaemonReload]);
        assert_eq!(alike(&[]), []);
    }

    #[test]
    fn each_step_is_done_once_and_an_error_is_told() {
        let steps: Vec<Step> = (0..200).map(write).collect();
        let done = Mutex::new(vec![0; 200]);
        let work = |index: usize, _: &Step| {
            done.lock().expect("no panics")[index] += 1;
            Ok(())
        };
        assert_eq!(each(&steps, work), Ok(()));
        assert_eq!(*done.lock().expect("no panics"), vec![1; 200]);
        let error = || Error::new(ErrorKind::NoSpace, "write", "/etc/7", "no space");
        let fails = |index: usize, _: &Step| if index == 7 { Err(error()) } else { Ok(()) };
        assert_eq!(each(&steps, fails), Err(error()));
    }
}
