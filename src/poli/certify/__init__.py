"""Weighted pose from matches: globally optimal, with a certificate. Does not need torch."""

from poli.certify.solve import Certificate, CertifiedPose, PosePrior, solve

__all__ = ["Certificate", "CertifiedPose", "PosePrior", "solve"]
