//! What rules may spend while they run, so that no rule holds the server.
//!
//! A rule takes long by loops and becomes large by what its functions make, so each turn of a loop is paid for, and each
//! call by the size of what it is given. Where the money ends, the rule ends with an error. Time is not looked at here;
//! whoever calls may say when enough is enough.

use std::cell::{Cell, RefCell};

use super::value::Fault;

/// What one rule may spend, and all rules of one object; the real server's figures.
const RULE: u64 = 1_000_000;
const OBJECT: u64 = 10_000_000;
/// A turn evaluates a condition and a step of a few parts each.
pub(super) const TURN: u64 = 5;
/// How much is spent between two questions whether the caller still has patience.
const ASK_EVERY: u64 = 320;

pub(crate) const SPENT: &str = "operation cancelled: actual cost limit exceeded";

type Patience = Box<dyn Fn() -> bool>;

thread_local! {
    static LEFT_OF_OBJECT: Cell<u64> = const { Cell::new(OBJECT) };
    static LEFT_OF_RULE: Cell<u64> = const { Cell::new(RULE) };
    static PATIENCE: RefCell<Option<Patience>> = const { RefCell::new(None) };
}

/// Runs `work`; rules in it end early once `patient` answers no.
pub fn with_patience<T>(patient: impl Fn() -> bool + 'static, work: impl FnOnce() -> T) -> T {
    PATIENCE.with(|own| *own.borrow_mut() = Some(Box::new(patient)));
    let answer = work();
    PATIENCE.with(|own| *own.borrow_mut() = None);
    answer
}

pub fn begin_object() {
    LEFT_OF_OBJECT.set(OBJECT);
}

/// False if nothing is left for another rule.
pub fn begin_rule() -> bool {
    LEFT_OF_RULE.set(RULE.min(LEFT_OF_OBJECT.get()));
    LEFT_OF_OBJECT.get() > 0
}

/// Takes what the rule spent from what the object has.
pub fn end_rule() {
    let spent = RULE.min(LEFT_OF_OBJECT.get()).saturating_sub(LEFT_OF_RULE.get());
    LEFT_OF_OBJECT.set(LEFT_OF_OBJECT.get() - spent);
}

/// What the rule may still spend.
pub(super) fn left() -> u64 {
    LEFT_OF_RULE.get()
}

pub(super) fn pay(amount: u64) -> Result<(), Fault> {
    let before = LEFT_OF_RULE.get();
    let left = before.saturating_sub(amount);
    LEFT_OF_RULE.set(left);
    let asked = before / ASK_EVERY != left / ASK_EVERY;
    let patient = !asked || PATIENCE.with(|own| own.borrow().as_ref().is_none_or(|patient| patient()));
    if left == 0 || !patient {
        LEFT_OF_RULE.set(0);
        if !patient {
            LEFT_OF_OBJECT.set(0);
        }
        return Err(Fault::Spent);
    }
    Ok(())
}
