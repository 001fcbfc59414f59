//! Waits for states of servers by looking again, where nothing can be watched.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long a state may take to come about; controllers of the real server work in the background.
pub(crate) const PATIENCE: Duration = Duration::from_secs(45);

/// What one look at the server showed.
pub(crate) enum Look<T> {
    There(T),
    /// What was seen instead.
    NotYet(String),
}

/// Looks again until what is waited for is there; an error ends it at once, and so does the end of all patience.
pub(crate) async fn eventually<T, F>(what: &str, look: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<Look<T>>>,
{
    let start = Instant::now();
    loop {
        match look().await? {
            Look::There(found) => return Ok(found),
            Look::NotYet(seen) if start.elapsed() > PATIENCE => bail!("waited in vain for {what}, last seen: {seen}"),
            Look::NotYet(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
