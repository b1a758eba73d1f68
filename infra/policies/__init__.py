"""The policy pack: the rules, as Pulumi's engine asks for them."""
