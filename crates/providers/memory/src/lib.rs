//! The simulated cloud: instances in memory, with delays and faults by providerSpec.
//!
//! Booting what an instance stands for is a port that the sandbox implements.
