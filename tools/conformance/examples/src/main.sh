# A program that others would submit: prints its options.
echo "rate $1, name $2"
