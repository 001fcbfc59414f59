//! Fields that depend on one another.

use super::{View, Violation, violate};
use crate::duration;

const SECOND: i64 = 1_000_000_000;
const MILLISECOND: i64 = 1_000_000;

pub(super) fn check(view: View<'_>, found: &mut Vec<Violation>) {
    images(view, found);
    shutdown(view, found);
    enforcement(view, found);
    periods(view, found);
    logs(view, found);
    others(view, found);
}

fn images(view: View<'_>, found: &mut Vec<Violation>) {
    let low = view.int("imageGCLowThresholdPercent").unwrap_or(80);
    let high = view.int("imageGCHighThresholdPercent").unwrap_or(85);
    if low >= high {
        let message = format!("must be less than imageGCHighThresholdPercent ({high}), but is {low}");
        violate(found, "imageGCLowThresholdPercent", message);
    }
    let longest = view.duration("imageMaximumGCAge");
    let shortest = Some(view.duration("imageMinimumGCAge")).filter(|age| *age != 0).unwrap_or(120 * SECOND);
    if longest > 0 && longest <= shortest {
        let message = format!("must be longer than imageMinimumGCAge ({})", duration::write(shortest));
        violate(found, "imageMaximumGCAge", message);
    }
    let parallel = view.int("maxParallelImagePulls").unwrap_or(1);
    // Unless it is said, pulls are serialized exactly where no more than one is allowed.
    if parallel > 1 && view.bool("serializeImagePulls") == Some(true) {
        violate(found, "maxParallelImagePulls", "cannot be larger than 1 unless serializeImagePulls is false");
    }
    let allowlist = view.texts("preloadedImagesVerificationAllowlist").next().is_some();
    let policy = view.text("imagePullCredentialsVerificationPolicy");
    if allowlist && policy != "NeverVerifyAllowlistedImages" {
        let message = "needs imagePullCredentialsVerificationPolicy NeverVerifyAllowlistedImages";
        violate(found, "preloadedImagesVerificationAllowlist", message);
    }
}

fn shutdown(view: View<'_>, found: &mut Vec<Violation>) {
    let (total, critical) = (view.duration("shutdownGracePeriod"), view.duration("shutdownGracePeriodCriticalPods"));
    for (field, period) in [("shutdownGracePeriod", total), ("shutdownGracePeriodCriticalPods", critical)] {
        if (1..SECOND).contains(&period) {
            violate(found, field, "must be zero or at least 1s, for example 30s");
        }
    }
    if critical > total {
        let message = format!(
            "({}) must not be longer than shutdownGracePeriod ({})",
            duration::write(critical),
            duration::write(total)
        );
        violate(found, "shutdownGracePeriodCriticalPods", message);
    }
    let by_priority = view.list("shutdownGracePeriodByPodPriority").next().is_some();
    if by_priority && (total > 0 || critical > 0) {
        let message = "cannot be set together with shutdownGracePeriod or shutdownGracePeriodCriticalPods";
        violate(found, "shutdownGracePeriodByPodPriority", message);
    }
}

const ENFORCED: [&str; 6] =
    ["pods", "system-reserved", "system-reserved-compressible", "kube-reserved", "kube-reserved-compressible", "none"];

fn enforcement(view: View<'_>, found: &mut Vec<Violation>) {
    const FIELD: &str = "enforceNodeAllocatable";
    let enforced: Vec<&str> = view.texts(FIELD).collect();
    for (index, word) in enforced.iter().enumerate() {
        if !ENFORCED.contains(word) {
            let message = format!("has {word:?}, which is none of {}", ENFORCED.join(", "));
            violate(found, format!("{FIELD}[{index}]"), message);
        }
        if enforced[..index].contains(word) {
            violate(found, format!("{FIELD}[{index}]"), format!("repeats {word:?}"));
        }
    }
    if enforced.contains(&"none") && enforced.len() > 1 {
        violate(found, FIELD, "may have nothing beside none");
    }
    for (kind, field) in [("system", "systemReservedCgroup"), ("kube", "kubeReservedCgroup")] {
        let (all, compressible) = (format!("{kind}-reserved"), format!("{kind}-reserved-compressible"));
        let [all, compressible] = [all, compressible].map(|word| enforced.contains(&word.as_str()));
        if all && compressible {
            violate(found, FIELD, format!("may have only one of {kind}-reserved and {kind}-reserved-compressible"));
        }
        if (all || compressible) && view.text(field).is_empty() {
            let message = format!("must be set while {FIELD} has {kind}-reserved, for example /{kind}.slice");
            violate(found, field, message);
        }
    }
    let enforces = enforced.iter().any(|word| *word != "none");
    if enforces && view.bool("cgroupsPerQOS") == Some(false) {
        violate(found, "cgroupsPerQOS", format!("must be true while {FIELD} has anything but none"));
    }
    if !view.text("systemCgroups").is_empty() && view.text("cgroupRoot").is_empty() {
        violate(found, "cgroupRoot", "must be set while systemCgroups is, for example /");
    }
    if !view.text("reservedSystemCPUs").is_empty() && !view.text("kubeReservedCgroup").is_empty() {
        violate(found, "kubeReservedCgroup", "cannot be set together with reservedSystemCPUs");
    }
}

fn periods(view: View<'_>, found: &mut Vec<Violation>) {
    if view.get("cpuCFSQuotaPeriod").is_some() {
        let period = view.duration("cpuCFSQuotaPeriod");
        if !(MILLISECOND..=SECOND).contains(&period) {
            violate(found, "cpuCFSQuotaPeriod", "must be between 1ms and 1s, for example 100ms");
        }
    }
    if view.get("crashLoopBackOff.maxContainerRestartPeriod").is_some() {
        let period = view.duration("crashLoopBackOff.maxContainerRestartPeriod");
        if !(SECOND..=300 * SECOND).contains(&period) {
            let message = "must be between 1s and 5m, for example 1m";
            violate(found, "crashLoopBackOff.maxContainerRestartPeriod", message);
        }
    }
    if view.get("containerLogMonitorInterval").is_some() && view.duration("containerLogMonitorInterval") < 3 * SECOND {
        violate(found, "containerLogMonitorInterval", "must be at least 3s, for example 10s");
    }
}

fn logs(view: View<'_>, found: &mut Vec<Violation>) {
    let folder = view.text("podLogsDir");
    let is_clean = folder.starts_with('/')
        && folder.is_ascii()
        && (folder == "/" || folder[1..].split('/').all(|part| !matches!(part, "" | "." | "..")));
    if !folder.is_empty() && !is_clean {
        violate(
            found,
            "podLogsDir",
            format!("must be an absolute, plain path such as /var/log/pods, but is {folder:?}"),
        );
    }
    if view.bool("enableSystemLogQuery") == Some(true) && view.bool("enableSystemLogHandler") == Some(false) {
        violate(found, "enableSystemLogQuery", "needs enableSystemLogHandler");
    }
}

fn others(view: View<'_>, found: &mut Vec<Violation>) {
    if view.bool("runOnce") == Some(true) {
        violate(found, "runOnce", "must not be true: a kubelet of a cluster runs for good");
    }
    if let Some(factor) = view.get("memoryThrottlingFactor").and_then(serde_json::Value::as_f64)
        && !(factor > 0.0 && factor <= 1.0)
    {
        let message = format!("must be above 0 and at most 1, for example 0.9, but is {factor}");
        violate(found, "memoryThrottlingFactor", message);
    }
    if let Some(ids) = view.int("userNamespaces.idsPerPod")
        && (ids < 65536 || ids % 65536 != 0 || ids > i64::from(u32::MAX))
    {
        violate(found, "userNamespaces.idsPerPod", format!("must be a multiple of 65536, but is {ids}"));
    }
    let gated = view.text("memoryReservationPolicy") == "TieredReservation";
    if gated && !view.gate("MemoryQoS") {
        violate(found, "memoryReservationPolicy", "TieredReservation needs the feature gate MemoryQoS");
    }
    for field in ["address", "healthzBindAddress"] {
        let address = view.text(field);
        if !address.is_empty() && address.parse::<std::net::IpAddr>().is_err() {
            violate(found, field, format!("must be an IP address such as 0.0.0.0, but is {address:?}"));
        }
    }
}
