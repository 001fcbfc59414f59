//! Where the services of a region are.

use std::collections::BTreeMap;

/// A service that we call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    Ec2,
    /// Classic load balancers.
    Elb,
    /// Network load balancers and their target groups.
    ElbV2,
}

impl Service {
    /// The version of the API whose parameters we write.
    pub(super) fn version(self) -> &'static str {
        match self {
            Self::Ec2 => "2016-11-15",
            Self::Elb => "2012-06-01",
            Self::ElbV2 => "2015-12-01",
        }
    }

    /// The name in signatures, in host names and in the Infrastructure object's list of endpoints.
    pub(super) fn signing_name(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::Elb | Self::ElbV2 => "elasticloadbalancing",
        }
    }

    /// The variable with which AWS's own tools move this one service.
    pub(super) fn variable(self) -> &'static str {
        match self {
            Self::Ec2 => "AWS_ENDPOINT_URL_EC2",
            Self::Elb => "AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING",
            Self::ElbV2 => "AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2",
        }
    }

    pub(super) const ALL: [Self; 3] = [Self::Ec2, Self::Elb, Self::ElbV2];
}

/// Which addresses replace AWS's own.
#[derive(Debug, Clone, Default)]
pub(super) struct Endpoints {
    /// By signing name, from the Infrastructure object.
    pub(super) configured: BTreeMap<String, String>,
    /// From the variable of a service.
    pub(super) of_service: BTreeMap<&'static str, String>,
    /// From the variable or profile for all services.
    pub(super) of_all: Option<String>,
    pub(super) fips: bool,
    pub(super) dual_stack: bool,
}

impl Endpoints {
    pub(super) fn url(&self, service: Service, region: &str) -> String {
        let name = service.signing_name();
        let given = self.configured.get(name).or_else(|| self.of_service.get(service.variable()));
        if let Some(url) = given.or(self.of_all.as_ref()) {
            return format!("{}/", url.trim_end_matches('/'));
        }
        let fips = if self.fips { "-fips" } else { "" };
        let domain = if self.dual_stack { dual_stack_domain(region) } else { domain(region) };
        format!("https://{name}{fips}.{region}.{domain}/")
    }
}

/// Each partition of AWS has a domain of its own.
fn domain(region: &str) -> &'static str {
    match partition(region) {
        "cn" => "amazonaws.com.cn",
        "us-iso" => "c2s.ic.gov",
        "us-isob" => "sc2s.sgov.gov",
        "us-isof" => "csp.hci.ic.gov",
        "eu-isoe" => "cloud.adc-e.uk",
        "eusc" => "amazonaws.eu",
        _ => "amazonaws.com",
    }
}

fn dual_stack_domain(region: &str) -> &'static str {
    match partition(region) {
        "cn" => "api.amazonwebservices.com.cn",
        "eusc" => "api.amazonwebservices.eu",
        "us-iso" | "us-isob" | "us-isof" | "eu-isoe" => domain(region),
        _ => "api.aws",
    }
}

/// The part of a region's name that names its partition.
fn partition(region: &str) -> &str {
    let first = region.split('-').next().unwrap_or_default();
    if matches!(first, "cn" | "eusc") {
        return first;
    }
    // us-iso-east-1, us-isob-east-1, eu-isoe-west-1.
    let ends = region.match_indices('-').nth(1).map_or(region.len(), |(at, _)| at);
    &region[..ends]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_has_its_own_domain() {
        let endpoints = Endpoints::default();
        let cases = [
            ("us-east-1", "https://ec2.us-east-1.amazonaws.com/"),
            ("us-gov-west-1", "https://ec2.us-gov-west-1.amazonaws.com/"),
            ("cn-north-1", "https://ec2.cn-north-1.amazonaws.com.cn/"),
            ("us-iso-east-1", "https://ec2.us-iso-east-1.c2s.ic.gov/"),
            ("us-isob-east-1", "https://ec2.us-isob-east-1.sc2s.sgov.gov/"),
            ("eu-isoe-west-1", "https://ec2.eu-isoe-west-1.cloud.adc-e.uk/"),
            ("eusc-de-east-1", "https://ec2.eusc-de-east-1.amazonaws.eu/"),
        ];
        for (region, url) in cases {
            assert_eq!(endpoints.url(Service::Ec2, region), url);
        }
        let url = endpoints.url(Service::ElbV2, "us-east-1");
        assert_eq!(url, "https://elasticloadbalancing.us-east-1.amazonaws.com/");
    }

    #[test]
    fn fips_and_dual_stack_change_the_host() {
        let endpoints = Endpoints { fips: true, dual_stack: true, ..Endpoints::default() };
        assert_eq!(endpoints.url(Service::Ec2, "us-east-1"), "https://ec2-fips.us-east-1.api.aws/");
    }

    #[test]
    fn the_cluster_s_endpoints_win_over_those_of_the_environment() {
        let mut endpoints = Endpoints { of_all: Some("http://all/".to_owned()), ..Endpoints::default() };
        assert_eq!(endpoints.url(Service::Ec2, "r"), "http://all/");
        endpoints.of_service.insert(Service::Ec2.variable(), "http://ec2".to_owned());
        assert_eq!(endpoints.url(Service::Ec2, "r"), "http://ec2/");
        endpoints.configured.insert("ec2".to_owned(), "https://vpce".to_owned());
        assert_eq!(endpoints.url(Service::Ec2, "r"), "https://vpce/");
        assert_eq!(endpoints.url(Service::Elb, "r"), "http://all/");
    }
}
