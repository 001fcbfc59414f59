//! The conformance suite: it accepts a sound provider and finds each defect of a broken one.

use std::sync::{Arc, Mutex};

use futures::executor::block_on;
use jiff::SignedDuration;
use machine::provider::conformance::Suite;
use machine::provider::{Provider, SecretData, Secrets, Surroundings};
use serde_json::json;

use crate::cloud::{Account, Cloud, Defect};
use crate::make::now;

fn run(defect: Option<Defect>) -> Result<(), String> {
    let account = Account { now: now(), settling: SignedDuration::from_secs(3), ..Account::default() };
    let cloud = Cloud { account: Arc::new(Mutex::new(account)), defect };
    let make = || Box::new(cloud.clone()) as Box<dyn Provider>;
    let pause = || cloud.account.lock().unwrap().pass(SignedDuration::from_secs(1));
    let credentials = SecretData([("password".to_owned(), b"correct horse".to_vec())].into());
    let suite = Suite {
        make: &make,
        spec: json!({"type": "small"}),
        broken: Some(json!({"broken": true})),
        secrets: Secrets { credentials: Some(credentials), user_data: None },
        surroundings: Surroundings { cluster: "c".to_owned(), ..Surroundings::default() },
        drive: &|future| block_on(future),
        pause: &pause,
        run_id: "run".to_owned(),
        now: now(),
    };
    suite.run()
}

#[test]
fn a_sound_provider_keeps_every_promise() {
    assert_eq!(run(None), Ok(()));
}

#[test]
fn each_defect_breaks_the_promise_it_is_about() {
    let defects = [
        (Defect::IgnoresTokens, "creating again under the same intent"),
        (Defect::ForgetsMarks, "found by its mark alone"),
        (Defect::AnswersOutOfOrder, "looked up at once, in order"),
        (Defect::DeletesByPrefix, "leaves the others alone"),
        (Defect::SaysGoneTooEarly, "deletion ends"),
        (Defect::LeavesOrphansUnlisted, "everything with the cluster's mark is listed"),
        (Defect::AcceptsAnySpec, "an invalid spec is refused"),
        (Defect::TellsSecrets, "no error tells a secret"),
        (Defect::DefaultsTwice, "defaulting twice"),
        (Defect::NewIdentityOnUpdate, "updating changes no identity"),
    ];
    for (defect, promise) in defects {
        let broken = run(Some(defect)).expect_err("a defect must be found");
        assert!(broken.lines().any(|line| line.contains(promise)), "{defect:?} was not found, but: {broken}");
    }
}
