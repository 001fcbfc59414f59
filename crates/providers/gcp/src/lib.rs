//! Machines on Google Compute Engine.
