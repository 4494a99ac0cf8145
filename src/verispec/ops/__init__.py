"""Operations: the contract, its numpy reference and the native implementation."""
