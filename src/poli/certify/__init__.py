"""Weighted pose from matches: globally optimal, with a certificate. Nothing here needs torch."""

from poli.certify.solve import Certificate, CertifiedPose, PosePrior, solve

__all__ = ["Certificate", "CertifiedPose", "PosePrior", "solve"]
