//! On demand, spot or capacity block, and the capacity reservation that goes with it.

use machine::provider::Verdict;
use machine::spec::Path;

use crate::spec::types::AwsSpec;

pub(super) fn check(spec: &AwsSpec, verdict: &mut Verdict) {
    let AwsSpec { market_type: market, capacity_reservation_id: reservation, spot_market_options, .. } = spec;
    let has_spot = spot_market_options.is_some();
    let reservation_path = Path::spec().child("capacityReservationId");
    if !reservation.is_empty() && !is_reservation(reservation) {
        verdict.invalid(&reservation_path, reservation, "must be cr- followed by 17 digits of 0-9 and a-f");
    }
    if market.is_empty() {
        if has_spot && !reservation.is_empty() {
            verdict.invalid(
                &reservation_path,
                reservation,
                "spot instances, as in spotMarketOptions, have no reservation",
            );
        }
    } else if let Some(fault) = fault(market, has_spot, reservation) {
        verdict.invalid(&Path::spec().child("marketType"), market, fault);
    }
}

/// The first reason why a market type does not go with the rest of the spec.
fn fault(market: &str, has_spot: bool, reservation: &str) -> Option<&'static str> {
    match market {
        "CapacityBlock" if has_spot => Some("a capacity block is no spot instance: take spotMarketOptions away"),
        "CapacityBlock" if reservation.is_empty() => Some("a capacity block needs its capacityReservationId"),
        "OnDemand" if has_spot => Some("an instance on demand is no spot instance: take spotMarketOptions away"),
        "Spot" if !reservation.is_empty() => {
            Some("spot instances have no reservation: take capacityReservationId away")
        }
        "CapacityBlock" | "OnDemand" | "Spot" => None,
        _ => Some("write OnDemand, Spot or CapacityBlock, or leave it out"),
    }
}

pub(crate) fn is_reservation(id: &str) -> bool {
    id.strip_prefix("cr-").is_some_and(|digits| digits.len() == 17 && super::placement::is_hexadecimal(digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_id_is_17_lowercase_digits() {
        assert!(is_reservation("cr-0123456789abcdef0"));
        for bad in
            ["", "cr-", "cr-0123456789ABCDEF0", "cr-0123456789abcdef", "cr-0123456789abcdef01", "0123456789abcdef0"]
        {
            assert!(!is_reservation(bad), "{bad}");
        }
    }

    #[test]
    fn the_first_contradiction_is_told() {
        assert!(fault("CapacityBlock", true, "").is_some_and(|fault| fault.contains("spotMarketOptions")));
        assert!(fault("CapacityBlock", false, "").is_some_and(|fault| fault.contains("capacityReservationId")));
        assert_eq!(fault("CapacityBlock", false, "cr-x"), None);
        assert!(fault("OnDemand", true, "cr-x").is_some());
        assert_eq!(fault("OnDemand", false, "cr-x"), None);
        assert!(fault("Spot", false, "cr-x").is_some());
        assert_eq!(fault("Spot", true, ""), None);
        assert!(fault("spot", false, "").is_some());
    }
}
