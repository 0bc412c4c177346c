"""The numerical tests under the settings that other machines bring, and how far the results differ between them."""
