SELECT lockhouse_forget()
