//! Notes which runbooks were followed, where and to which end; `cargo xtask test` prints them as a table.
//!
//! A note is a line `R8<TAB>machinist up<TAB>passed` in the file that `MACHINIST_RUNBOOKS` names. Later lines overrule earlier ones, so
//! a runbook whose story was never reached, or broke off, is told apart from one that passed.

use std::fs::OpenOptions;
use std::io::Write as _;

use super::page::Block;

/// The file that collects the notes; without it nothing is noted.
const NOTES: &str = "MACHINIST_RUNBOOKS";

/// The runbooks of one page on one fleet.
pub(super) struct Runbooks {
    place: &'static str,
    current: Option<String>,
}

impl Runbooks {
    /// Notes every runbook of the page as not reached.
    pub(super) fn of(blocks: &[Block], place: &'static str) -> Self {
        let runbooks = Self { place, current: None };
        for block in blocks {
            if let Block::Runbook(Some(number)) = block {
                runbooks.note(number, "not reached");
            }
        }
        runbooks
    }

    /// Ends the runbook that was being followed, and begins the next. One that breaks off stays noted as failed.
    pub(super) fn begin(&mut self, number: Option<&String>) {
        if let Some(done) = self.current.take() {
            self.note(&done, "passed");
        }
        if let Some(number) = number {
            self.note(number, "failed");
            self.current = Some(number.clone());
        }
    }

    fn note(&self, number: &str, result: &str) {
        let Some(path) = std::env::var_os(NOTES) else { return };
        let mut file =
            OpenOptions::new().create(true).append(true).open(path).expect("the file of notes can be opened");
        // One write for each line, so that stories that run at once do not mix their notes.
        file.write_all(format!("{number}\t{}\t{result}\n", self.place).as_bytes()).expect("a note can be written");
    }
}
