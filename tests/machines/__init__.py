"""Run the numerical tests under the settings of other machines, and compare the results."""
