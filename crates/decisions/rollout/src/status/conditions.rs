//! A pool's list of conditions.
//!
//! It is one list with several writers upstream, so conditions that are not set here are kept. A condition that changes
//! moves to the end, and its time moves only when its status does.

use api::machineconfiguration::MachineConfigPoolCondition;
use api::names::status;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(super) struct Conditions {
    list: Vec<MachineConfigPoolCondition>,
    now: Timestamp,
}

impl Conditions {
    pub(super) fn new(list: &[MachineConfigPoolCondition], now: Timestamp) -> Self {
        Self { list: list.to_vec(), now }
    }

    pub(super) fn set(&mut self, type_: &str, is_true: bool, reason: &str, message: &str) {
        let word = if is_true { status::TRUE } else { status::FALSE };
        let present = self.get(type_);
        if present.is_some_and(|it| it.status == word && it.reason == reason && it.message == message) {
            return;
        }
        let unchanged = present.filter(|it| it.status == word).and_then(|it| it.last_transition_time.clone());
        let condition = MachineConfigPoolCondition {
            type_: type_.to_owned(),
            status: word.to_owned(),
            last_transition_time: Some(unchanged.unwrap_or(Time(self.now))),
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        self.list.retain(|it| it.type_ != type_);
        self.list.push(condition);
    }

    /// The message of a condition that is true.
    pub(super) fn message_if_true(&self, type_: &str) -> Option<String> {
        self.get(type_).filter(|it| it.status == status::TRUE).map(|it| it.message.clone())
    }

    pub(super) fn has(&self, type_: &str) -> bool {
        self.get(type_).is_some()
    }

    pub(super) fn finish(self) -> Vec<MachineConfigPoolCondition> {
        self.list
    }

    /// Should a type be there twice, the later one counts.
    fn get(&self, type_: &str) -> Option<&MachineConfigPoolCondition> {
        self.list.iter().rfind(|it| it.type_ == type_)
    }
}
