//! The platform-specific parts of an Infrastructure.

mod alibaba_cloud;
mod aws;
mod azure;
mod external;
mod gcp;
mod ibm;
mod load_balancer;
mod nutanix;
mod on_premises;
mod vsphere;

pub use alibaba_cloud::*;
pub use aws::*;
pub use azure::*;
pub use external::*;
pub use gcp::*;
pub use ibm::*;
pub use load_balancer::*;
pub use nutanix::*;
pub use on_premises::*;
pub use vsphere::*;
