//! Reads a machine's report about its first boot and turns it into an event and a condition.
//!
//! The sender is not trusted yet. Reports are limited in size, their text is only displayed, and the Machine they
//! belong to follows from token or address and not from their content.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longer reports are refused.
pub const LONGEST: usize = 64 * 1024;

/// Longer error texts are cut.
const SENTENCE: usize = 900;

/// The condition of a Machine that tells how its first boot went.
pub const CONDITION: &str = "FirstBoot";

/// A report about one first boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub stage: Stage,
    /// The rendered config that was being applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// The machine's own host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The steps that were started, in order. If there is an error, the last step failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The result file that Ignition wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignition: Option<Value>,
    /// The machine reboots once more before it is ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reboots: bool,
}

/// The program that reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Ignition, before the real root was started.
    Ignition,
    /// `machinistd firstboot`, after the real root was started.
    #[default]
    FirstBoot,
}

/// The content of an event or a condition about a report.
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

    /// Returns the event for this report. `address` is the client's address.
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

/// Returns one line of bounded length without control characters, which could move a terminal's cursor.
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
    fn an_invalid_report_is_refused_with_the_expected_format() {
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
