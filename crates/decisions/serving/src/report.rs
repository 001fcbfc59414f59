//! What a new machine tells about its first boot, and how that is told on.
//!
//! A report comes from a machine that is not trusted yet: it is bounded, its text is shown and never obeyed, and which
//! Machine it is about is decided by its token or address, not by what it says.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest report that is read.
pub const LONGEST: usize = 64 * 1024;

/// The longest sentence that is told on.
const SENTENCE: usize = 900;

/// The condition of a Machine that says how its first boot went.
pub const CONDITION: &str = "FirstBoot";

/// One report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub stage: Stage,
    /// The rendered config that was being brought up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// What the machine calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The steps that were begun, in order; the last one failed where there is an error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What Ignition left behind about itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignition: Option<Value>,
    /// The machine boots once more before it is ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reboots: bool,
}

/// Who reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Ignition, before the system was started.
    Ignition,
    /// `machinistd firstboot`, after it was.
    #[default]
    FirstBoot,
}

/// A report as an event or a condition tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    pub is_bad: bool,
    pub reason: &'static str,
    pub message: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a report has at most {LONGEST} bytes")]
    Long,
    #[error("not a report: {0}; send JSON with stage (Ignition or FirstBoot), steps and error")]
    Json(#[from] serde_json::Error),
}

impl Report {
    pub fn parse(body: &[u8]) -> Result<Self, Error> {
        if body.len() > LONGEST {
            return Err(Error::Long);
        }
        Ok(serde_json::from_slice(body)?)
    }

    /// What is told about it. `address` is where it came from.
    pub fn news(&self, pool: &str, address: &str) -> News {
        let who = match &self.host {
            Some(host) => format!("{} ({address})", plain(host, 80)),
            None => address.to_owned(),
        };
        let config = self.config.as_deref().map_or_else(String::new, |config| format!(" with {}", plain(config, 253)));
        let (reason, what) = match (self.stage, &self.error) {
            (Stage::Ignition, Some(error)) => ("IgnitionFailed", format!("Ignition failed{config}: {error}")),
            (Stage::Ignition, None) => ("IgnitionCompleted", format!("Ignition is through{config}")),
            (Stage::FirstBoot, Some(error)) => {
                let step = self.steps.last().map_or_else(String::new, |step| format!(" at \"{step}\""));
                ("FirstBootFailed", format!("the first boot{config} failed{step}: {error}"))
            }
            (Stage::FirstBoot, None) if self.reboots => {
                ("FirstBootCompleted", format!("the first boot{config} is through; the machine reboots once more"))
            }
            (Stage::FirstBoot, None) => ("FirstBootCompleted", format!("the first boot{config} is through")),
        };
        let message = plain(&format!("machine {who} of pool {pool}: {what}"), SENTENCE);
        News { is_bad: self.error.is_some(), reason, message }
    }
}

/// Text for one line: nothing in it moves a terminal's cursor, and it ends somewhere.
fn plain(text: &str, longest: usize) -> String {
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(longest).collect();
    if text.chars().nth(longest).is_some() {
        line.push_str("...");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_at_which_step() {
        let report = Report {
            config: Some("rendered-worker-1".to_owned()),
            host: Some("node\n-1".to_owned()),
            steps: vec!["read the config".to_owned(), "apply the OS image".to_owned()],
            error: Some("no such image".to_owned()),
            ..Report::default()
        };
        let news = report.news("worker", "10.0.0.1");
        assert!(news.is_bad);
        assert_eq!(news.reason, "FirstBootFailed");
        assert_eq!(
            news.message,
            "machine node -1 (10.0.0.1) of pool worker: the first boot with rendered-worker-1 failed at \"apply the OS image\": no such image"
        );
    }

    #[test]
    fn what_is_not_a_report_is_refused_and_says_what_one_is() {
        for body in [&b""[..], b"[", b"[]", b"{}", b"{\"stage\": \"Later\"}", b"\xff\xfe"] {
            let error = Report::parse(body).expect_err("no report").to_string();
            assert!(error.contains("FirstBoot"), "{error}");
        }
        assert!(matches!(Report::parse(&[b' '; LONGEST + 1]), Err(Error::Long)));
    }

    #[test]
    fn a_long_error_is_cut() {
        let report = Report { error: Some("ä".repeat(60_000)), ..Report::default() };
        assert!(report.news("worker", "10.0.0.1").message.len() < 2 * SENTENCE + 10);
    }
}
