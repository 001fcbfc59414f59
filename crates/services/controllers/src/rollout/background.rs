//! Writes that go on beside the planning, and end with it.

use parking_lot::Mutex;
use tokio::task::JoinSet;

#[derive(Default)]
pub(super) struct Background {
    tasks: Mutex<JoinSet<()>>,
}

/// Ends everything in the background when it goes, so that nothing is written after the Lease is given back.
pub(super) struct UntilDropped<'a>(&'a Background);

impl Background {
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    pub(super) fn until_dropped(&self) -> UntilDropped<'_> {
        UntilDropped(self)
    }
}

impl Drop for UntilDropped<'_> {
    fn drop(&mut self) {
        self.0.tasks.lock().abort_all();
    }
}
