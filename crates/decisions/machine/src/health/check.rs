//! A health check, read and validated.

use std::fmt;

use api::annotations;
use api::labels;
use api::machine::{MachineHealthCheck, MachineHealthCheckSpec, UnhealthyCondition, annotation};
use api::selector::Selector;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::duration;

/// The check that replaces spot machines whose cloud takes them back. It must not wait for its turn.
pub const TERMINATION_CHECK: &str = "machine-api-termination-handler";
/// How a reboot was asked for from 4.3 on.
const STRATEGY: &str = "healthchecking.openshift.io/strategy";

/// What a check asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    pub namespace: String,
    pub name: String,
    pub selector: Selector,
    pub symptoms: Vec<Symptom>,
    pub max_unhealthy: Limit,
    /// How long a machine has to get a node. `None` waits for ever.
    pub startup: Option<SignedDuration>,
    pub strategy: Strategy,
    pub paused: bool,
    /// How many machines may be under remediation at once. `None` means that there is no such brake.
    pub at_once: Option<Limit>,
    /// Machines of the control plane are left alone, and only machines of MachineSets are replaced, as in 2019.
    pub workers_only: bool,
}

/// A node condition that makes a machine unhealthy when it lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symptom {
    pub type_: String,
    pub status: String,
    pub timeout: SignedDuration,
}

/// A number of machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    Number(i64),
    Percent(i64),
    /// A tenth, and at least one: what may be under remediation when nobody said otherwise.
    TenthOrOne,
    All,
}

/// What is done about an unhealthy machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    Delete,
    /// The bare metal provider power-cycles the machine; failed machines are deleted.
    ExternalBareMetal,
    /// An annotation on the node asks for a reboot.
    Reboot,
    /// Another controller works on requests made from this template.
    Template(ObjectReference),
}

/// Why a check cannot be used. The text names the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error(
        "failed to get value for maxUnhealthy: invalid value for IntOrString: invalid value {0:?}: not a number or a whole percentage"
    )]
    MaxUnhealthy(String),
    #[error("annotation {key}: {value:?} is neither a number of machines above 0 nor a percentage")]
    AtOnce { key: &'static str, value: String },
    #[error("spec.selector: {0}")]
    Selector(String),
    #[error("spec.unhealthyConditions[{index}].timeout: {problem}")]
    Timeout { index: usize, problem: String },
    #[error("spec.nodeStartupTimeout: {0}")]
    StartupTimeout(String),
    #[error("{0}")]
    ConfigMap(String),
}

/// The check that replaces spot machines as soon as their node says that its cloud takes it back.
pub fn termination_check(namespace: &str) -> MachineHealthCheck {
    let spec = MachineHealthCheckSpec {
        selector: Some(LabelSelector {
            match_labels: Some([(labels::INTERRUPTIBLE_INSTANCE.to_owned(), String::new())].into()),
            match_expressions: None,
        }),
        unhealthy_conditions: vec![UnhealthyCondition {
            type_: Some("Terminating".to_owned()),
            status: Some(api::names::status::TRUE.to_owned()),
            timeout: Some("0s".to_owned()),
        }],
        max_unhealthy: Some(IntOrString::String("100%".to_owned())),
        node_startup_timeout: Some("0".to_owned()),
        remediation_template: None,
    };
    let mut check = MachineHealthCheck::new(TERMINATION_CHECK, spec);
    check.metadata.namespace = Some(namespace.to_owned());
    check
}

/// What a MachineHealthCheck without `nodeStartupTimeout` waits.
pub(super) const STARTUP: SignedDuration = SignedDuration::from_mins(10);

impl Check {
    /// Reads a check of today.
    pub fn from_object(check: &MachineHealthCheck) -> Result<Self, Invalid> {
        let spec = &check.spec;
        let annotation = |key: &str| check.metadata.annotations.as_ref().and_then(|all| all.get(key));
        let selector = spec.selector.clone().unwrap_or_default();
        let name = check.metadata.name.clone().unwrap_or_default();
        let strategy = match (&spec.remediation_template, annotation(annotations::REMEDIATION_STRATEGY)) {
            (Some(template), _) => Strategy::Template(template.clone()),
            (None, Some(strategy)) if strategy == "external-baremetal" => Strategy::ExternalBareMetal,
            (None, _) if annotation(STRATEGY).is_some_and(|strategy| strategy == "reboot") => Strategy::Reboot,
            (None, _) => Strategy::Delete,
        };
        Ok(Self {
            namespace: check.metadata.namespace.clone().unwrap_or_default(),
            selector: Selector::parse(&selector).map_err(|problem| Invalid::Selector(problem.to_string()))?,
            symptoms: symptoms(check)?,
            max_unhealthy: spec.max_unhealthy.as_ref().map_or(Ok(Limit::All), Limit::parse)?,
            startup: startup(spec.node_startup_timeout.as_deref())?,
            strategy,
            paused: annotation(annotations::PAUSED).is_some(),
            at_once: at_once(&name, annotation(annotation::MAX_REMEDIATIONS))?,
            workers_only: false,
            name,
        })
    }
}

fn symptoms(check: &MachineHealthCheck) -> Result<Vec<Symptom>, Invalid> {
    let read = |(index, condition): (usize, &UnhealthyCondition)| {
        let timeout = condition.timeout.as_deref().map_or(Ok(SignedDuration::ZERO), duration::parse_positive);
        Ok(Symptom {
            type_: condition.type_.clone().unwrap_or_default(),
            status: condition.status.clone().unwrap_or_default(),
            timeout: timeout.map_err(|problem| Invalid::Timeout { index, problem: problem.to_string() })?,
        })
    };
    check.spec.unhealthy_conditions.iter().enumerate().map(read).collect()
}

fn startup(text: Option<&str>) -> Result<Option<SignedDuration>, Invalid> {
    let timeout = text.map_or(Ok(STARTUP), duration::parse_positive);
    let timeout = timeout.map_err(|problem| Invalid::StartupTimeout(problem.to_string()))?;
    Ok(Some(timeout).filter(|timeout| !timeout.is_zero()))
}

/// The brake: a tenth of the machines, or what the annotation says. The check of spot machines has none.
pub(super) fn at_once(name: &str, annotation: Option<&String>) -> Result<Option<Limit>, Invalid> {
    let Some(text) = annotation else {
        return Ok(Some(Limit::TenthOrOne).filter(|_| name != TERMINATION_CHECK));
    };
    let refuse = || Invalid::AtOnce { key: annotation::MAX_REMEDIATIONS, value: text.clone() };
    let limit = Limit::parse(&IntOrString::String(text.clone())).map_err(|_| refuse())?;
    match limit {
        Limit::Number(number) | Limit::Percent(number) if number <= 0 => Err(refuse()),
        limit => Ok(Some(limit)),
    }
}

impl Limit {
    fn parse(value: &IntOrString) -> Result<Self, Invalid> {
        match value {
            IntOrString::Int(number) => Ok(Self::Number((*number).into())),
            IntOrString::String(text) => {
                let refuse = |_| Invalid::MaxUnhealthy(text.clone());
                match text.strip_suffix('%') {
                    Some(digits) => digits.parse().map(Self::Percent).map_err(refuse),
                    None => text.parse().map(Self::Number).map_err(refuse),
                }
            }
        }
    }

    /// How many machines of so many that is. Percentages are rounded down, and less than none is none.
    pub fn of(&self, total: usize) -> i64 {
        let total = i64::try_from(total).unwrap_or(i64::MAX);
        let number = match self {
            Self::Number(number) => *number,
            Self::Percent(percent) => percent.saturating_mul(total).div_euclid(100),
            Self::TenthOrOne => (total / 10).max(1),
            Self::All => total,
        };
        number.max(0)
    }
}

/// As it stands in the check.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::TenthOrOne => write!(f, "10%"),
            Self::All => write!(f, "100%"),
        }
    }
}
