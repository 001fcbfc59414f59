//! Where the daemon's words go: to journald with their priority, or as plain lines to whoever started it.
//!
//! Under systemd a line carries its priority in front, as `sd-daemon(3)` has it, and journald adds the time and the unit. The
//! fields stay in the line, so that plain `journalctl -u machinistd` shows all of it.

use std::fmt;
use std::os::unix::fs::MetadataExt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::{LookupSpan, Scope};
use tracing_subscriber::util::SubscriberInitExt;

pub(crate) fn start() {
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(std::io::stderr);
    let log = tracing_subscriber::registry().with(filter());
    if goes_to_journald() { log.with(lines.event_format(Journald)).init() } else { log.with(lines).init() }
}

/// `RUST_LOG`, levels by module. The richer language of filters on fields would cost a regular expression engine.
fn filter() -> Targets {
    let chosen = std::env::var("RUST_LOG").ok().and_then(|text| text.parse().ok());
    chosen.unwrap_or_else(|| Targets::new().with_default(Level::INFO))
}

/// systemd names the journal's socket by device and inode; a program whose output was sent elsewhere must not believe it.
fn goes_to_journald() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    std::fs::metadata("/proc/self/fd/2").is_ok_and(|stderr| stream == format!("{}:{}", stderr.dev(), stderr.ino()))
}

struct Journald;

/// The numbers of `syslog(3)`.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

impl<S, N> FormatEvent<S, N> for Journald
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>().filter(|fields| !fields.is_empty()) {
                write!(writer, "{}{{{fields}}} ", span.name())?;
            }
        }
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
