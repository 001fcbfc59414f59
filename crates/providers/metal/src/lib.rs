//! Machines that are bare metal: BareMetalHosts, Ironic and Redfish.
