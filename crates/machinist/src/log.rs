//! The log of a process on standard error: lines for people, or JSON objects for programs.

use std::io::IsTerminal as _;

use anyhow::bail;
use tracing_subscriber::EnvFilter;

/// Chooses the form of the log; `RUST_LOG` chooses how much of it there is.
const VARIABLE: &str = "MACHINIST_LOG";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Lines,
    Json,
}

/// `default` says what is logged where `RUST_LOG` does not.
pub(crate) fn start(default: &str) -> anyhow::Result<()> {
    let form = form(std::env::var(VARIABLE).ok().as_deref())?;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match form {
        // A file or a pod's log would keep the colours as letters.
        Form::Lines => log.with_ansi(std::io::stderr().is_terminal()).init(),
        Form::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}

fn form(wanted: Option<&str>) -> anyhow::Result<Form> {
    match wanted {
        None | Some("" | "text") => Ok(Form::Lines),
        Some("json") => Ok(Form::Json),
        Some(other) => bail!("{VARIABLE} is {other:?}: set it to `text` or `json`, or leave it out for text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_the_log_is_chosen_by_name_and_a_wrong_one_names_the_right_ones() {
        assert_eq!(form(None).expect("default"), Form::Lines);
        assert_eq!(form(Some("json")).expect("json"), Form::Json);
        let refusal = form(Some("yaml")).expect_err("unknown").to_string();
        assert_eq!(refusal, r#"MACHINIST_LOG is "yaml": set it to `text` or `json`, or leave it out for text"#);
    }
}
