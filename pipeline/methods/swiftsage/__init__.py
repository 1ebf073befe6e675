"""SWIFT, SAGE and SwiftSage: a small model acts, a large one plans (Lin et al. 2023)."""
