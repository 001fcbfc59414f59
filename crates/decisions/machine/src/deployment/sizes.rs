//! How many machines may be too many, or missing, while a deployment moves.

use api::machine::MachineDeployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// `maxSurge` and `maxUnavailable` in machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    pub surge: i32,
    pub unavailable: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("spec.strategy.rollingUpdate.{field}: {value:?} is neither a number nor a percentage")]
pub struct AllowanceError {
    pub field: &'static str,
    pub value: String,
}

impl Allowance {
    /// Reads the strategy of a deployment. Surge is rounded up, unavailability down. If both come out as nothing, one
    /// machine may be missing: otherwise the deployment could never move.
    pub(super) fn of(deployment: &MachineDeployment, replicas: i32) -> Result<Self, AllowanceError> {
        let strategy = deployment.spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let surge = strategy.and_then(|rolling| rolling.max_surge.clone()).unwrap_or(IntOrString::Int(1));
        let unavailable = strategy.and_then(|rolling| rolling.max_unavailable.clone()).unwrap_or(IntOrString::Int(0));
        let surge = machines("maxSurge", &surge, replicas, true)?;
        let unavailable = machines("maxUnavailable", &unavailable, replicas, false)?;
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Ok(Self { surge, unavailable: unavailable.min(replicas) })
    }
}

fn machines(field: &'static str, value: &IntOrString, replicas: i32, round_up: bool) -> Result<i32, AllowanceError> {
    match value {
        IntOrString::Int(number) if *number >= 0 => Ok(*number),
        IntOrString::Int(number) => Err(AllowanceError { field, value: number.to_string() }),
        IntOrString::String(text) => {
            let refuse = || AllowanceError { field, value: text.clone() };
            let percent: i64 = text.strip_suffix('%').and_then(|digits| digits.parse().ok()).ok_or_else(refuse)?;
            let hundredths = percent.checked_mul(replicas.into()).filter(|_| percent >= 0).ok_or_else(refuse)?;
            let rounded =
                if round_up { hundredths.div_euclid(100) + i64::from(hundredths % 100 > 0) } else { hundredths / 100 };
            i32::try_from(rounded).map_err(|_| refuse())
        }
    }
}
