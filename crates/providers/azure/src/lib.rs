//! Machines on Microsoft Azure.
