//! A health check of either vintage.

use std::sync::Arc;
use std::time::Duration;

use api::healthchecking::MachineHealthCheck as LegacyCheck;
use api::machine::MachineHealthCheck;
use cluster::events::Severity;
use cluster::read;
use cluster::watch::Key;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::Api;
use machine::health::{CONFIG_MAP, Check, Invalid};
use tokio::time::Instant;

use super::{Checks, Error, MANAGER};
use crate::claim::{Claim, Claims};
use crate::context::Context;

/// When a check is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vintage {
    /// `machine.openshift.io/v1beta1`.
    Today,
    /// `healthchecking.openshift.io/v1alpha1`.
    Legacy,
}

pub(super) enum Subject {
    Today(Arc<MachineHealthCheck>),
    Legacy(Arc<LegacyCheck>),
}

impl Checks {
    /// The check of this controller's vintage.
    pub(super) fn subject(&self, key: &Key) -> Option<Subject> {
        let world = &self.context.world;
        match self.vintage {
            Vintage::Today => world.checks.get(key).map(Subject::Today),
            Vintage::Legacy => world.legacy_checks.get(key).map(Subject::Legacy),
        }
    }

    /// A check of 2019 with what the ConfigMap says. `None` for one that selects nothing.
    ///
    /// # Errors
    /// When the ConfigMap could not be read. Without one there are defaults, so it must be known that there is none.
    pub(super) async fn read_legacy(&self, check: &LegacyCheck) -> Result<Option<Result<Check, Invalid>>, Error> {
        let api: Api<ConfigMap> = Api::namespaced(self.context.world.client.clone(), &self.context.settings.namespace);
        let reading = read::get(&api, CONFIG_MAP).await;
        let config_map = reading.fresh("configmaps", Timestamp::now())?;
        Ok(Check::from_legacy_object(check, config_map.as_ref()).transpose())
    }
}

impl Subject {
    /// How much longer another process may act for this check.
    pub(super) fn foreign_claim(&self, claims: &Claims, key: &Key, identity: &str) -> Option<Duration> {
        match self {
            Self::Today(check) => claims.foreign(key, &**check, identity),
            Self::Legacy(check) => claims.foreign(key, &**check, identity),
        }
    }

    /// Claims the check, as it was looked at, for a plan about these machines.
    pub(super) async fn claim(
        &self,
        context: &Context,
        machines: &[&str],
        planned: Instant,
    ) -> Result<(Self, Claim), Error> {
        let (client, identity) = (context.world.client.clone(), &context.settings.identity);
        let fail = |name: String| move |source| Error::Write { what: "machinehealthcheck", name, source };
        match self {
            Self::Today(check) => {
                let api = Api::namespaced(client, &check.namespace().unwrap_or_default());
                let claimed = Claims::take(&api, MANAGER, &**check, identity, machines, planned).await;
                let (check, claim) = claimed.map_err(fail(check.name_any()))?;
                Ok((Self::Today(Arc::new(check)), claim))
            }
            Self::Legacy(check) => {
                let api = Api::namespaced(client, &check.namespace().unwrap_or_default());
                let claimed = Claims::take(&api, MANAGER, &**check, identity, machines, planned).await;
                let (check, claim) = claimed.map_err(fail(check.name_any()))?;
                Ok((Self::Legacy(Arc::new(check)), claim))
            }
        }
    }

    pub(super) fn tell(&self, context: &Context, severity: Severity, reason: &str, message: &str) {
        match self {
            Self::Today(check) => context.publish(&**check, severity, reason, message),
            Self::Legacy(check) => context.publish(&**check, severity, reason, message),
        }
    }

    /// Warns, unless this was said already.
    pub(super) fn tell_once(&self, context: &Context, reason: &str, message: &str) {
        match self {
            Self::Today(check) => context.tell(&**check, Severity::Warning, reason, message),
            Self::Legacy(check) => context.tell(&**check, Severity::Warning, reason, message),
        }
    }
}
